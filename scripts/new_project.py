"""Writes a small project of your own: `python scripts/new_project.py ../mine`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.runs import new_project  # noqa: E402

if __name__ == "__main__":
    sys.exit(new_project.main())

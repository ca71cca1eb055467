"""Trains an idea and records it: `python scripts/try.py "a wider network" model.hidden=[256]`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.seeds import ideas  # noqa: E402

if __name__ == "__main__":
    sys.exit(ideas.main())

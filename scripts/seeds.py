"""Trains further seeds of a run: `python scripts/seeds.py outputs/<date>/<time>-<id> --add 4`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.seeds import seeds  # noqa: E402

if __name__ == "__main__":
    sys.exit(seeds.main())

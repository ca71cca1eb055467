"""Makes stretches of a run again and compares: `python scripts/recheck.py latest`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.ask import recheck  # noqa: E402

if __name__ == "__main__":
    sys.exit(recheck.main())

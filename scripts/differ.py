"""Whether runs differ, beyond the noise of their seeds: `python scripts/differ.py RUNS RUNS`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.seeds import differ  # noqa: E402

if __name__ == "__main__":
    sys.exit(differ.main())

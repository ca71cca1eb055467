"""Where two runs part, by update and tensor: `python scripts/bisect_runs.py RUN RUN`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.ask import bisect  # noqa: E402

if __name__ == "__main__":
    sys.exit(bisect.main())

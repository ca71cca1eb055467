"""Makes an update of a run again: `python scripts/replay.py <run folder> --update 40`, or <run
folder>/nonfinite/update-<number>`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.ask import replay  # noqa: E402

if __name__ == "__main__":
    sys.exit(replay.main())

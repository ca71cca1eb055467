"""Lists, compares, opens and removes runs: `python scripts/runs.py list outputs`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.runs import command as runs  # noqa: E402

if __name__ == "__main__":
    sys.exit(runs.main())

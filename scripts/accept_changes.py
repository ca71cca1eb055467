"""Accepts changes of a run's files made on purpose: `python scripts/accept_changes.py RUN_FOLDER`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.runs import accept_changes  # noqa: E402

if __name__ == "__main__":
    sys.exit(accept_changes.main())

"""Checks a run before it is trained: `python scripts/check.py model=convnet lr=1e-3`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.runs import check  # noqa: E402

if __name__ == "__main__":
    sys.exit(check.main())

"""Tells which samples an update saw: `python scripts/samples.py latest --spikes 5`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.ask import samples  # noqa: E402

if __name__ == "__main__":
    sys.exit(samples.main())

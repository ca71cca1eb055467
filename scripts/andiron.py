"""Every command in a checkout, as `andiron` where it is installed.

    python scripts/andiron.py evaluate latest split=test weights=best
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())

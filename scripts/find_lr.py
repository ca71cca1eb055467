"""Finds a learning rate: `python scripts/find_lr.py data=mnist model=convnet optimizer=adam`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron_lab.views import find_lr  # noqa: E402

if __name__ == "__main__":
    sys.exit(find_lr.main(ROOT / "conf"))

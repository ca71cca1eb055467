"""Shows the screen of a run that another process trains: `python scripts/watch.py RUN`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.screen import watch  # noqa: E402

if __name__ == "__main__":
    sys.exit(watch.main())

"""Shows a run before it is run: `python scripts/plan.py param_groups=muon scheduler=cosine`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.runs import plan  # noqa: E402

if __name__ == "__main__":
    sys.exit(plan.main(ROOT / "conf"))

"""Predicts with a trained run: `python scripts/predict.py latest picture.png`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.trained import predict  # noqa: E402

if __name__ == "__main__":
    sys.exit(predict.main())

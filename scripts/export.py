"""Exports the model of a run: `python scripts/export.py <run> --format onnx --output exported`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.trained.exports import export  # noqa: E402

if __name__ == "__main__":
    sys.exit(export.main())

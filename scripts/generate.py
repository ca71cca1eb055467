"""Continues a text with a trained model: `python scripts/generate.py <run> --prompt "To be"`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.trained import generate  # noqa: E402

if __name__ == "__main__":
    sys.exit(generate.main())

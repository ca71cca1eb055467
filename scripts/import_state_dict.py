"""Converts a torch state_dict: `python scripts/import_state_dict.py weights.pt out.safetensors`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.trained import import_state_dict  # noqa: E402

if __name__ == "__main__":
    sys.exit(import_state_dict.main())

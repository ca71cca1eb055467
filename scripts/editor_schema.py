"""Writes a JSON Schema of your configuration for editors: `python scripts/editor_schema.py`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

from andiron.wings.runs import editor_schema  # noqa: E402

if __name__ == "__main__":
    sys.exit(editor_schema.main())

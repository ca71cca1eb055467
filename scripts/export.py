"""`python scripts/andiron.py export`, at the place where programs call it."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.argv.insert(1, "export")
    runpy.run_path(str(Path(__file__).with_name("andiron.py")), run_name="__main__")

"""Proves exact resume: `python scripts/verify_resume.py model=convnet --at 1 mid --workers 2 0`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # a plain checkout needs no install of its own

from proofs.exact_resume import verify_resume  # noqa: E402

if __name__ == "__main__":
    sys.exit(verify_resume.main(ROOT / "conf"))

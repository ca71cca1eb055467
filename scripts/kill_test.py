"""Kills runs at random moments and compares: `python scripts/kill_test.py --runs 100`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # a plain checkout needs no install of its own

from proofs import kill_test  # noqa: E402

if __name__ == "__main__":
    sys.exit(kill_test.main())

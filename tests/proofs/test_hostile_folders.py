"""Hostile run folders are refused by every command that reads one, and nothing in them runs."""

import os
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]


def test_a_tenth_of_the_hostile_folders_is_refused():
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.hostile_folders", "--step", "10"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 0 with a fault" in ended.stdout

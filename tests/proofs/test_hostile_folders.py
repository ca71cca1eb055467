"""A few of the attempts of `python -m proofs.hostile_folders`, with every kind of folder."""

import os
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]


def test_hostile_folders_do_nothing_through_any_command():
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.hostile_folders", "--step", "601"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 0 with a fault" in ended.stdout

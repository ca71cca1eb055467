"""A few of the attempts of `python -m proofs.hostile_folders`, with every kind of folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLICES = {
    "of all": ["--step", "1201"],
    "of sweeps, searches and what passes for a run": ["--step", "87", "--only",
                                                      "study:|sweep again:|replaced:|another tool"],
    "that lead to a user's files": [
        "--only", "names a user's file|link to a user's run|in place of the trials",
    ],
}  # fmt: skip


@pytest.mark.parametrize("options", SLICES.values(), ids=SLICES)
def test_hostile_folders_do_nothing_through_any_command(options):
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.hostile_folders", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 0 with a fault" in ended.stdout

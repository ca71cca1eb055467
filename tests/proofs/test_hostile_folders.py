"""A few of the attempts of `python -m proofs.hostile_folders`, with every kind of folder."""

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from andiron import __main__

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[2]
SLICES = {  # the step of each
    "": 2003, "study:|sweep again:|replaced:|another tool": 149,
    "job: a link to a user's run": 9, ".run.replaced: a link to a user's run": 1,
}  # fmt: skip


# in the words of other commands: resume=, and rerun, whose checks it calls
OTHERWISE = {"train", "seeds"}
# consolidate reads a checkpoint, as resume= does
WITHOUT_A_RUN = {
    "check", "consolidate", "find-lr", "new", "schema", "tokenize", "try", "verify-resume",
}  # fmt: skip


def test_every_command_that_reads_a_run_is_tried():
    hostile_commands = pytest.importorskip("proofs.hostile_commands")
    tried = [command.main for command in hostile_commands.COMMANDS.values()]
    commands = __main__.COMMANDS | __main__.others()
    missing = {name for name in commands if pkgutil.resolve_name(commands[name]) not in tried}
    assert missing == OTHERWISE | WITHOUT_A_RUN


def test_hostile_folders_do_nothing_through_any_command():
    slices = ["--only", *SLICES, "--step", *map(str, SLICES.values())]
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.hostile_folders", *slices],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 0 with a fault" in ended.stdout

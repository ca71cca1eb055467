"""Scratch folders: gone after a signal; of a killed process, gone with the next one."""

import fcntl
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from in_process import called

from andiron.shell.cli import process
from andiron_lab.ask import scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1", "SIGXCPU"])
def test_a_signal_leaves_no_scratch_folder(temporary, name):
    number = signal.Signals[name]

    def main() -> int:
        with scratch.folder() as made:
            Path(made, "step-1").mkdir()
            signal.raise_signal(number)
        return 0

    before = signal.getsignal(number)
    ended = called(process.command(main))
    assert (ended.code, ended.errors) == (128 + number, "interrupted\n")
    assert [*temporary.iterdir()] == [] and signal.getsignal(number) == before


def test_the_folder_of_a_killed_process_is_removed_and_no_other(temporary):
    killed, others = temporary / "andiron-ask-killed", []
    with scratch.folder() as made:  # its process goes on
        others.append(Path(made))
        for name in ("mine", "copied"):
            others.append(temporary / f"andiron-ask-{name}")
            shutil.copytree(made, others[-1]) if name == "copied" else others[-1].mkdir()
        killed.mkdir()
        (killed / "step-1").mkdir()
        descriptor = os.open(killed, os.O_RDONLY)
        (killed / scratch.MARK).write_text(scratch._identity(descriptor))
        os.close(descriptor)
        held = os.open(killed, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        with scratch.folder():
            assert killed.exists()
        os.close(held)
        (temporary / "andiron-ask-link").symlink_to(killed)
        with scratch.folder():
            assert not killed.exists() and all(map(Path.is_dir, others))
    assert not others[0].exists() and all(map(Path.is_dir, others[1:]))

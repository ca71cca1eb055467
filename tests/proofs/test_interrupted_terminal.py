"""Ctrl-C on a real terminal while live progress is shown."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[2]
OWNER = """import fcntl, runpy, sys, termios
# standard input becomes the terminal whose Ctrl-C this process gets
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")"""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@pytest.mark.slow
def test_ctrl_c_on_a_real_terminal_ends_the_run_and_restores_it(tmp_path):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [
        sys.executable, "-c", OWNER, ROOT / "train.py", "num_epochs=100000",
        f"hydra.run.dir={tmp_path / 'run'}",
    ]  # fmt: skip
    environment = {**os.environ, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    environment.pop("COLUMNS", None)
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, **streams, env=environment, start_new_session=True) as process:
        drawn = read_until(ours, " left")
        os.write(ours, b"\x03")
        drawn += read_until(ours, "resumes the run from its newest checkpoint")
        assert process.wait(timeout=60) == 130
    after = termios.tcgetattr(theirs)
    os.close(theirs)
    os.close(ours)

    assert drawn.rindex(SHOW_CURSOR) > drawn.rindex(HIDE_CURSOR)
    assert "Traceback" not in drawn
    assert after == before


def read_until(descriptor, words):
    drawn = bytearray()
    while words not in drawn.decode(errors="ignore"):
        drawn += os.read(descriptor, 65536)
    return drawn.decode(errors="ignore")

"""The default renderer of a real run with and without a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_a_real_terminal_shows_a_redrawn_line_and_gets_its_cursor_back(tmp_path):
    ours, theirs = pty.openpty()
    command = [
        sys.executable, ROOT / "train.py", "num_epochs=40", f"hydra.run.dir={tmp_path / 'run'}",
    ]  # fmt: skip
    environment = {**os.environ, "COLUMNS": "150", "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(theirs)
        drawn = read_all(ours)
    assert process.returncode == 0
    assert "epoch 40/40  update   840" in drawn  # the permanent line of the last epoch
    for moving in ("━", "samples/s", " left", "valid loss"):
        assert moving in drawn
    assert "everything about the run is in" in drawn
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")  # shown after it was last hidden


def read_all(descriptor):
    drawn = bytearray()
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # on Linux: the other end is closed
            chunk = b""
        if not chunk:
            os.close(descriptor)
            return drawn.decode()
        drawn += chunk

"""However a run with the dashboard ends, the terminal is as it was; SIGKILL apart."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[2]
ENTER, LEAVE, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
OWNER = """import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")"""
FAILING = """import torch
from andiron.metrics import Loss
class Failing(Loss):
    name = "failing"
    calls = 0
    def __call__(self, item):
        Failing.calls += 1
        if Failing.calls > 300:
            raise RuntimeError("for a test")
        return super().__call__(item)
"""
SECONDS_AT_MOST = 120


class Run:
    """`train.py` on a terminal of its own, whose other end this is."""

    def __init__(self, cwd, *overrides, rows=32, columns=120, **environment):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.drawn = ""
        command = [sys.executable, "-c", OWNER, ROOT / "train.py", "hydra.run.dir=run", *overrides]
        here = {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(cwd)}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), self.theirs)
        self.process = subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **here, **environment}, start_new_session=True,
            **streams,
        )  # fmt: skip

    def until(self, *words):
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not all(word in self.drawn for word in words):
            assert time.monotonic() < deadline, self.drawn[-5000:]
            if select.select([self.ours], [], [], 0.1)[0]:
                self.drawn += os.read(self.ours, 65536).decode(errors="replace")

    def end(self):
        """The exit code; whatever is drawn meanwhile is read."""
        while self.process.poll() is None:
            if select.select([self.ours], [], [], 0.1)[0]:
                self.drawn += os.read(self.ours, 65536).decode(errors="replace")
        while select.select([self.ours], [], [], 0.2)[0]:
            self.drawn += os.read(self.ours, 65536).decode(errors="replace")
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        for descriptor in (self.ours, self.theirs):
            os.close(descriptor)


def assert_given_back(run):
    assert termios.tcgetattr(run.theirs) == run.before
    last = run.drawn.rindex(LEAVE)
    assert last > run.drawn.rindex(ENTER) and SHOW_CURSOR in run.drawn[last - 10 :]


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "number", "code"), [
    (b"svq", None, 130), (b"\x03", None, 130), (b"", signal.SIGHUP, 129),
    (b"v", signal.SIGTERM, 143),
])  # fmt: skip
def test_the_terminal_is_given_back_after_keys_and_signals(tmp_path, keys, number, code):
    with Run(tmp_path, "num_epochs=100000") as run:
        run.until("samples/s")
        os.write(run.ours, keys)
        if number is not None:
            time.sleep(1 if keys else 0)
            run.process.send_signal(number)
        assert run.end() == code
        assert_given_back(run)
        assert "Traceback" not in run.drawn


@pytest.mark.slow
def test_a_second_ctrl_c_gives_the_terminal_back_too(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom andiron.metrics import Loss\nclass Slow(Loss):\n    name = 'slow'\n    "
        "def __call__(self, item):\n        time.sleep(2)\n        return super().__call__(item)\n"
    )
    metric = "+metrics.slow={_target_: slow.Slow}"
    with Run(tmp_path, "num_epochs=100000", metric) as run:
        run.until("update 2/")  # update 1 is shown shortly before the run counts as begun
        run.process.send_signal(signal.SIGINT)
        run.until("the current update will be finished")
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130
        assert_given_back(run)


@pytest.mark.slow
def test_an_error_gives_the_terminal_back_and_is_shown(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    with Run(tmp_path, "num_epochs=100000", "+metrics.f={_target_: failing.Failing}") as run:
        assert run.end() == 1
        assert_given_back(run)
        assert "for a test" in run.drawn[run.drawn.rindex(LEAVE) :]


@pytest.mark.slow
def test_a_terminal_that_closes_saves_the_run(tmp_path):
    run = Run(tmp_path, "num_epochs=100000")
    run.until("samples/s")
    os.close(run.theirs)
    os.close(run.ours)  # the kernel sends SIGHUP
    assert run.process.wait(SECONDS_AT_MOST) == 129

    assert '"interrupted"' in (tmp_path / "run" / "status.json").read_text()
    assert [*(tmp_path / "run" / "checkpoints").glob("step-*")]


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"PYTHONIOENCODING": "ascii"}])
def test_a_terminal_without_a_screen_gets_lines(tmp_path, environment):
    with Run(tmp_path, "num_epochs=2", "render=dashboard", **environment) as run:
        assert run.end() == 0
        assert ENTER not in run.drawn and "epoch 2/2  update    42" in run.drawn


@pytest.mark.slow
def test_a_finished_run_leaves_its_lines_and_the_summary(tmp_path):
    with Run(tmp_path, "num_epochs=3") as run:
        assert run.end() == 0
        assert_given_back(run)
        left = run.drawn[run.drawn.rindex(LEAVE) :]
        for words in ("epoch 1/3", "epoch 3/3  update    63", "everything about the run is in"):
            assert words in left, words

"""`python train.py` as a process: beside others, interrupted, killed, its terminal closed."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from waiting import until

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(cwd, *overrides):
    command = [sys.executable, ROOT / "train.py", *overrides]
    return subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def finish(process):
    try:
        output, error = process.communicate(timeout=240)
    finally:
        process.kill()  # where it has not ended
    return process.returncode, output, error


def status(folder):
    return json.loads((folder / "status.json").read_text())


def test_runs_started_together_get_a_folder_each(tmp_path):
    together = [start(tmp_path, "num_epochs=1") for _ in range(3)]

    assert [finish(process)[0] for process in together] == [0, 0, 0]
    folders = list(tmp_path.glob("outputs/*/*"))
    assert [status(folder)["status"] for folder in folders] == ["done"] * 3


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_run_as_interrupted_with_its_checkpoints_whole(tmp_path, number, code):
    process = start(tmp_path, "num_epochs=100000", "hydra.run.dir=run")
    until(lambda: list(tmp_path.glob("run/checkpoints/step-*")))
    process.send_signal(number)
    actual, _, error = finish(process)

    assert actual == code and "Traceback" not in error
    assert status(tmp_path / "run")["status"] == "interrupted"
    saved = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]
    # no part of one
    assert saved and all(name.startswith("step-") for name in saved)
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_run_whose_terminal_is_closed_is_saved_and_interrupted(tmp_path):
    terminal, own = os.openpty()
    process = subprocess.Popen(
        [sys.executable, ROOT / "train.py", "num_epochs=100000", "hydra.run.dir=run"],
        cwd=tmp_path,
        stdin=own,
        stdout=own,
        stderr=own,
        env=ENVIRONMENT,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(own)
    until(lambda: drained(terminal) and list(tmp_path.glob("run/checkpoints/step-*")))
    os.close(terminal)

    assert process.wait(timeout=240) == 129
    ended = status(tmp_path / "run")
    assert (ended["status"], ended["reason"]) == ("interrupted", "SIGHUP")


def drained(terminal):
    """Reads what the process has shown, so that it need not wait for a reader."""
    while select.select([terminal], [], [], 0)[0]:
        os.read(terminal, 65536)
    return True


def test_a_killed_run_does_not_say_that_it_is_done(tmp_path):
    process = start(tmp_path, "num_epochs=100000", "hydra.run.dir=run")
    until(
        lambda: (
            (tmp_path / "run" / "metrics.jsonl").exists()
            and (tmp_path / "run" / "metrics.jsonl").read_text()
        )
    )
    process.kill()
    finish(process)

    assert status(tmp_path / "run")["status"] == "running"
    assert status(tmp_path / "run")["pid"] == process.pid
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line)["updates"] > 0 for line in lines)

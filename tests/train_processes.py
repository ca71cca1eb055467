"""`python train.py` as a process of its own: what it says can be read while it runs, and none is
left behind.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from andiron import errors
from andiron.checkpoint.on_disk import manifest
from andiron.run_folder import RunFolder
from andiron.shell.run import status as run_status

ROOT = Path(__file__).resolve().parents[1]
SECONDS_AT_MOST = 240
_numbers = itertools.count(1)


class Training:
    """One process, started in `cwd`, where modules of one's own may lie too; the leader of a group
    of its own.
    """

    def __init__(self, cwd, *overrides):
        self._said = cwd / f"said-{next(_numbers)}"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(cwd)}
        environment.pop("PYTHONUNBUFFERED", None)  # lines come when they are printed without it
        with (
            self._said.with_suffix(".out").open("wb") as output,
            self._said.with_suffix(".err").open("wb") as error,
        ):
            command = [sys.executable, ROOT / "train.py", *overrides]
            self.process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=error, start_new_session=True,
            )  # fmt: skip

    @property
    def output(self):
        """The standard output so far."""
        return self._said.with_suffix(".out").read_text()

    @property
    def errors(self):
        """The standard error so far."""
        return self._said.with_suffix(".err").read_text()

    @property
    def has_ended(self):
        return self.process.poll() is not None

    def until(self, condition):
        """Waits for something that the process is to bring about."""
        deadline = time.monotonic() + SECONDS_AT_MOST
        ended = False
        while not condition():
            if ended or time.monotonic() > deadline:
                pytest.fail(
                    f"it did not come to that (exit code {self.process.returncode}):\n"
                    f"{self.output}{self.errors}"
                )
            time.sleep(0.01)
            ended = self.has_ended  # its last words may have come after the condition was asked

    def end(self):
        """Waits for its end; the exit code."""
        code = self.process.wait(timeout=SECONDS_AT_MOST)
        assert "Traceback" not in self.errors, self.errors
        return code

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def trained(cwd, *overrides):
    """The standard output of a process that ended well."""
    with Training(cwd, *overrides) as process:
        assert process.end() == 0, process.errors
        return process.output


def in_two(cwd, *overrides, **environment):
    """`train.py` in two processes of torchrun: its exit code and its standard error."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node=2", str(ROOT / "train.py"), *overrides]
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(cwd), **environment}
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | own, capture_output=True, text=True,
        timeout=SECONDS_AT_MOST,
    )  # fmt: skip
    return done.returncode, done.stderr


def status(run_dir):
    """`status.json`; nothing while there is none, or while it is being made."""
    return run_status.read(RunFolder(run_dir))


def lines(run_dir):
    """The whole lines of metrics.jsonl."""
    path = run_dir / "metrics.jsonl"
    whole = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in whole]


def updates_saved(run_dir):
    """Of each checkpoint the updates, in order; every one of them is whole."""
    result = []
    for path in (run_dir / "checkpoints").glob("step-*"):
        try:
            result.append(manifest.verified(path).updates)
        except errors.DataError:
            if path.exists():  # else a running process has pruned it meanwhile
                raise
    return sorted(result)

"""A signal while `python train.py` starts: sent by the process to itself as it imports a module."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SENDS = """import os, sys

class Finder:
    at, number = os.environ.pop("SENT_AT").split()

    def find_spec(self, name, path=None, target=None):
        if name == self.at:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(self.number))

sys.meta_path.insert(0, Finder())
"""
# in the order in which they are imported, from the first line of train.py to the whole run
PLACES = ("gc", "andiron", "andiron.interrupter", "hydra", "andiron.shell.config.schema", "torch")
SIGNALS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
SENT = [*zip(PLACES, itertools.cycle(SIGNALS), strict=False)]
SCRIPT = "import sys; from andiron.shell.training.train import script; sys.exit(script())"
TRAIN = ROOT / "train.py"
ONE_RUN = ("num_epochs=1", "render=plain", "hydra.run.dir=run")
SWEEP = ("-m", "seed=1,2", "hydra.launcher.jobs=1", "hydra.sweep.dir=sweep", "num_epochs=1")


def interrupted(cwd, number, place, *command):
    """The process that got the signal as it imported `place`."""
    (cwd / "sitecustomize.py").write_text(SENDS)
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(cwd), str(ROOT / "src")]),
        "SENT_AT": f"{place} {int(number)}",
    }  # fmt: skip
    started = [sys.executable, *command]
    ended = subprocess.run(
        started, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


@pytest.mark.parametrize(("place", "number"), SENT)
def test_a_signal_at_the_start_asks_the_scheduler_to_requeue(tmp_path, place, number):
    ended = interrupted(tmp_path, number, place, TRAIN, *ONE_RUN, "restart=requeued")

    assert ended.returncode == 75, ended.stderr
    assert ended.stderr.splitlines()[-1] == (
        f"interrupted; nothing was trained, and nothing is left in {tmp_path / 'run'}: start it "
        "again"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["hydra", "andiron.wings.sweep.launching"])
def test_a_signal_at_the_start_of_a_sweep_asks_to_requeue(tmp_path, place):
    ended = interrupted(tmp_path, signal.SIGHUP, place, TRAIN, *SWEEP, "restart=requeued")

    assert ended.returncode == 75 and ended.stderr.splitlines()[-1] == "interrupted"


def test_the_installed_command_answers_signals_as_train_py_does(tmp_path):
    ended = interrupted(
        tmp_path, signal.SIGUSR1, "hydra", "-c", SCRIPT, *ONE_RUN, "restart=requeued"
    )
    assert ended.returncode == 75


@pytest.mark.parametrize(("options", "code"), [
    ((), 128 + signal.SIGTERM), (("interrupted_exit_code=7",), 7), (("lr=-1",), 2),
])  # fmt: skip
def test_the_configuration_has_the_exit_code_of_a_signal(tmp_path, options, code):
    ended = interrupted(tmp_path, signal.SIGTERM, "hydra", TRAIN, *ONE_RUN, *options)
    assert ended.returncode == code

"""Programs in processes of their own: the bits of this process, and a folder for each."""

import contextlib
import os
import subprocess
import sys

import pytest
from conftest import ROOT
from in_process import called
from train_processes import Training, status

from andiron.shell.training import train

pytestmark = pytest.mark.usefixtures("preloaded_processes")


@pytest.fixture
def process(tmp_path):
    """Runs a program of the repository with arguments; returns the lines it prints."""

    def run(program, *arguments):
        done = subprocess.run(
            [sys.executable, ROOT / program, *arguments], cwd=tmp_path, capture_output=True,
            text=True, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


@pytest.mark.usefixtures("fresh_processes")
def test_a_job_of_a_sweep_equals_the_same_run_alone(process, tmp_path):
    overrides = ("num_epochs=1", "model=convnet")
    swept = called(train.main, "-m", "seed=1,2", *overrides, "hydra.sweep.dir=sweep", cwd=tmp_path)
    assert swept.code == 0
    process("train.py", "seed=2", *overrides, "hydra.run.dir=alone")

    weights = [
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("sweep/1", "alone")
    ]
    assert weights[0] == weights[1]


def test_runs_started_together_get_a_folder_each(tmp_path):
    with contextlib.ExitStack() as running:
        started = [running.enter_context(Training(tmp_path, "num_epochs=1")) for _ in range(3)]
        assert [process.end() for process in started] == [0, 0, 0]
    folders = tmp_path.glob("outputs/*/*")
    assert [status(folder)["status"] for folder in folders] == ["done"] * 3


def test_a_run_is_repeated_in_a_new_folder(process, tmp_path):
    finished = tmp_path / "run"
    options = ("data=partial", "num_epochs=2", "model=convnet", "model.hidden=32", "averages=ema")
    ended = called(train.main, *options, f"hydra.run.dir={finished}")
    assert (ended.code, ended.errors) == (0, "")
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}

    lines = process("scripts/andiron.py", "rerun", finished)

    assert lines[0].startswith("changed since:")
    # 8 tensors of the model, in two files of the run and two of the checkpoint; Adam has three for
    # each. An epoch: 5 values of the window, 2 of the whole, 2 of each validation; in TensorBoard
    # without the whole and with the epoch's number
    assert (
        lines[-2] == "exact: 56 tensors, 26 logged values, 24 TensorBoard scalars are the same bits"
    )
    (again,) = (tmp_path / "outputs" / "rerun").iterdir()
    assert lines[-1] == f"the repeated run is in {again}"
    assert (again / "model-ema.safetensors").read_bytes() == (
        finished / "model-ema.safetensors"
    ).read_bytes()
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before

"""Sweeps as they are used: jobs in processes of their own, of which some fail."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from small_disks import fill, mounted
from train_processes import Training

from andiron.run_folder import LEDGER
from andiron.wings.sweep import ledger
from proofs import sweep_kills

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[2]
FAULTY = """
    import os, signal, sys, time
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, input_shape, num_classes, fault):
            super().__init__()
            self.layer = nn.Linear(64, num_classes)
            self.fault = fault if os.environ.get("FAULTS") else None
            self.calls = 0

        def forward(self, images):
            self.calls += 1
            if self.calls == 5:
                if self.fault == "raises":
                    raise RuntimeError("on purpose")
                if self.fault == "exits":
                    sys.exit(0)
                if self.fault == "is_killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                while self.fault == "hangs":
                    time.sleep(1)
            return self.layer(images.flatten(1))
"""
ENDS = {
    "none": ("done", None),
    "raises": ("failed", "RuntimeError: on purpose"),
    "exits": ("failed", "ended the process (sys.exit(0)); raise an error there instead"),
    "is_killed": ("killed", "killed by SIGKILL"),
    "hangs": ("timed out", "took longer than 18s"),
}


@pytest.fixture
def swept(tmp_path):
    """Calls `python train.py -m` on the faulty network, its output read for one line only."""
    (tmp_path / "faulty.py").write_text(textwrap.dedent(FAULTY))

    def call(**environment):
        arguments = [
            "-m", "model._target_=faulty.Net", "~model.hidden", "~model.dropout",
            f"+model.fault={','.join(ENDS)}", "num_epochs=1", "validate_every=1epochs",
            "log_every=1", "checkpoint.every=1", "jobs=2", "sweep_name=faults",
            "hydra.launcher.job_minutes=0.3", "hydra.launcher.grace_seconds=0.1",
        ]  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, ROOT / "train.py", *arguments], cwd=tmp_path, text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path), **environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        process.stdout.readline()
        process.stdout.close()  # as `| head -1` does
        with process.stderr:
            errors = process.stderr.read()
        return process.wait(), errors

    return call


def jobs(folder):
    """The ledger's records, by the fault of the job."""
    result = ledger.read(folder).jobs.values()
    return {dict(text.split("=") for text in job.overrides)["+model.fault"]: job for job in result}


def test_jobs_fail_alone_and_the_same_command_repairs_them(swept, tmp_path):
    sweep = tmp_path / "multirun" / "faults"

    code, errors = swept(FAULTS="1")

    result = jobs(sweep)
    assert code == 1
    for fault, (status, reason) in ENDS.items():
        assert result[fault].status == status, fault
        assert reason is None or reason in result[fault].reason
        assert (f"{sweep}/{result[fault].number} (" in errors) == (status != "done")
    assert "raise RuntimeError" in (sweep / "output" / f"{result['raises'].number}.txt").read_text()

    code, errors = swept()

    assert (code, errors) == (0, "")
    again = jobs(sweep)
    assert {fault: job.status for fault, job in again.items()} == dict.fromkeys(ENDS, "done")
    starts = {fault: job.starts for fault, job in again.items()}
    assert starts == dict.fromkeys(ENDS, 2) | {"none": 1}
    weights = {(sweep / str(number) / "model.safetensors").read_bytes() for number in range(5)}
    assert len(weights) == 1  # resumed runs too have the bits of the one that was not disturbed
    recorded = json.loads((sweep / "0" / "provenance.json").read_text())
    assert str(recorded["hardware"]["threads"]) == again["none"].threads


def test_an_interrupted_sweep_compares_the_jobs_that_are_done(tmp_path):
    path = tmp_path / "multirun" / "some" / LEDGER
    with Training(tmp_path, "-m", "seed=range(0,99)", "num_epochs=1", "sweep_name=some") as sweep:
        sweep.until(lambda: path.exists() and '"done"' in path.read_text())
        sweep.process.send_signal(signal.SIGINT)

        assert sweep.end() == 130
        assert "the best again: " in sweep.output
        assert sweep.errors.endswith("; the same command continues the others\n")


def test_a_race_on_a_full_disk_pauses_no_job_that_is_not_saved(tmp_path):
    race = [
        sys.executable, ROOT / "train.py", "-m", "hydra/sweeper=race", "model.hidden=[256]",
        "num_epochs=2", "lr=1e-3,1e-5", "seed=1,2,3", "render=plain", "hydra.sweep.dir=disk/race",
    ]  # fmt: skip

    def raced():
        return subprocess.run(race, cwd=tmp_path, capture_output=True, text=True)

    with mounted(tmp_path / "disk", mebibytes=40) as disk:
        filler = fill(disk, leave=400_000)
        full = raced()
        assert full.returncode == 1 and "could not be written" in full.stderr
        jobs = ledger.read(disk / "race").jobs.values()
        paused = [disk / "race" / job.folder for job in jobs if job.status == "paused"]
        assert not [path for path in paused if not [*path.glob("checkpoints/step-[1-9]*")]]
        filler.unlink()
        for job in jobs:  # as the words of the job say
            if job.status == "failed":
                shutil.rmtree(disk / "race" / job.folder)
        again = raced()
        assert again.returncode == 0, again.stderr
        assert "1 of 2 configurations is left" in again.stdout and "lr=0.001" in again.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--trials", "2"),
        ("--trials", "1", "--also", "hydra/sweeper=race", "lr=1e-3,1e-2"),
    ],
)
def test_a_sweep_stopped_at_once_leaves_no_job_and_resumes(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sweep_kills.py", "--seed", "3", *arguments])
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))

    assert sweep_kills.main() == 0

"""`python train.py` as it is used: in sweeps, and with `--help` in a pipe."""

import json
import subprocess
import sys

from conftest import ROOT, status
from in_process import called

from andiron.shell.training import train
from andiron.wings.runs import command as runs


def test_a_sweep_trains_each_combination_in_its_own_folder(tmp_path):
    overrides = ("optimizer=adam,sgd", "lr=1e-3,1e-4", "num_epochs=1")
    ended = called(train.main, "-m", *overrides, cwd=tmp_path)

    assert (ended.code, ended.errors) == (0, "")
    (sweep,) = tmp_path.glob("multirun/*/*")
    configs = [json.loads((sweep / job / "config.json").read_text()) for job in "0123"]
    assert [(c["optimizer"]["_target_"], c["lr"]) for c in configs] == [
        ("torch.optim.Adam", 1e-3), ("torch.optim.Adam", 1e-4), ("torch.optim.SGD", 1e-3),
        ("torch.optim.SGD", 1e-4),
    ]  # fmt: skip
    assert [status(sweep / job)["status"] for job in "0123"] == ["done"] * 4
    assert len({(sweep / job / "model.safetensors").read_bytes() for job in "0123"}) == 4
    again = "the best again: OMP_NUM_THREADS=1 python train.py optimizer=adam lr=0.001 num_epochs=1"
    assert ended.output.endswith(f"{again}\n")
    folder = sweep.relative_to(tmp_path)
    assert ended.output.startswith(f"4 jobs, 1 at a time, in {folder}\n")
    assert called(runs.main, "compare", sweep, "--metric", "valid/accuracy").code == 0
    compared = called(runs.main, "compare", sweep)
    assert compared.output.endswith(f"{again}\n")


def test_a_best_job_that_was_resumed_is_reported_with_its_changes(here):
    small = ("num_epochs=1", "sweep_name=some", "render=plain")
    assert called(train.main, "-m", "seed=1,2", *small).code == 0
    assert called(train.main, "resume=multirun/some/0", "num_epochs=3").code == 0

    compared = called(runs.main, "compare", "multirun/some")

    assert compared.output.endswith("the best was resumed since, with num_epochs=3\n")


READ_SLOWLY = f"""
import subprocess
import sys
from pathlib import Path

import torch

ANDIRON = [sys.executable, {str(ROOT / "scripts" / "andiron.py")!r}]
COMMAND = [*ANDIRON, "runs", "list", "run", "--columns", "status,lr,problem"]


class Seen(torch.utils.data.TensorDataset):
    \"""Notes what another process sees of the run while its data are read.\"""

    def __init__(self):
        super().__init__(torch.zeros(8, 2), torch.zeros(8, dtype=torch.long))
        Path("seen.txt").write_bytes(subprocess.check_output(COMMAND))
        Path("files.txt").write_text(" ".join(path.name for path in Path("run").iterdir()))
"""


def test_a_run_is_seen_with_its_options_while_its_data_are_read(here, monkeypatch):
    (here / "slow_parts.py").write_text(READ_SLOWLY)
    monkeypatch.syspath_prepend(here)
    data = ("data=torch_dataset", "data.train={_target_: slow_parts.Seen}", "data.num_classes=2")
    ended = called(train.main, *data, "num_epochs=1", "lr=0.25", "hydra.run.dir=run")

    assert (ended.code, ended.errors) == (0, "")
    _, row = (here / "seen.txt").read_text().splitlines()
    assert row.split() == ["run", "running", "0.25", "-"]
    assert {".hydra", "config.json"} <= {*(here / "files.txt").read_text().split()}


def test_help_ends_quietly_when_its_reader_has_enough(tmp_path):
    command = [sys.executable, str(ROOT / "train.py"), "--help"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        process.stdout.close()  # before anything is printed
        assert process.stderr.read() == b""
        assert process.wait(timeout=240) == 141  # as other programs end that a pipe ends

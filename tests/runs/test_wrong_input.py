"""Every mistake a user can make at the border: the exit code, the words, and what is left behind.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

from conftest import status
from in_process import Ended

from proofs import wrong_commands

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[2]
BLAS = {"OMP_NUM_THREADS": "1"}
REFUSED, FAILED, _ = wrong_commands.documented()  # with the exit codes 2 and 1
IN_REAL = (
    "optimizer=adamm lr=abc num_epoch=3 seed=[", "hydra.run.dir=${nothing}",
    "optimizer._target_=torch.nn.Linear",
)  # fmt: skip
NO_GPU, DIVERGES = "device=cuda:99", "optimizer=sgd lr=1e9"


def process(*arguments):
    """A real `python train.py` in the current directory."""
    line = [sys.executable, str(ROOT / "train.py"), *arguments, "num_epochs=1", "render=plain"]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=120, env={**os.environ, **BLAS}
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def files_below(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def assert_begin(lines, beginnings):
    assert len(lines) == len(beginnings), lines
    for line, beginning in zip(lines, beginnings, strict=True):
        assert line.startswith(beginning)


@pytest.mark.parametrize("line", REFUSED)
def test_configuration_mistakes_are_listed_by_line_and_leave_no_files(line, command, here):
    ended = command("hydra.run.dir=run", *line.split())

    assert_begin(ended.problems, REFUSED[line])
    assert ended.code == 2
    assert files_below(here) == [] and not (here / "run").exists()


@pytest.mark.parametrize("line", IN_REAL)
def test_a_real_process_reports_configuration_mistakes_without_a_traceback(line, here):
    ended = process(*line.split())

    assert_begin(ended.problems, REFUSED[line])
    assert ended.code == 2
    assert files_below(here) == []


@pytest.mark.parametrize("line", FAILED)
def test_a_run_that_fails_gives_its_reason_and_leaves_a_folder_if_it_trained(line, command, here):
    [message] = FAILED[line]

    ended = command("hydra.run.dir=run", *line.split())

    assert ended.errors.startswith(f"error: {message}")
    assert ended.code == 1
    if line == DIVERGES:
        recorded = status(here / "run")
        assert (recorded["status"], ended.errors) == ("failed", f"error: {recorded['reason']}\n")
        assert not (here / "run" / "summary.json").exists()
        assert not (here / "run" / "model.safetensors").exists()
    else:
        assert not (here / "run").exists()
        assert command("hydra.run.dir=run", *line.split()).errors == ended.errors


@pytest.mark.parametrize("line", [NO_GPU, DIVERGES])
def test_a_real_process_that_fails_gives_its_reason_without_a_traceback(line, here):
    ended = process("hydra.run.dir=run", *line.split())

    assert ended.errors.startswith("error: ") and ended.errors.count("\n") == 1
    assert FAILED[line][0] in ended.errors
    assert ended.code == 1
    assert (here / "run").exists() == (line == DIVERGES)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_refused_with_the_available_devices(command, here):
    said = command("hydra.run.dir=run", "device=cuda")

    assert said.errors.startswith(
        "error: device=cuda: this machine has no such device; it has: cpu"
    )
    assert said.errors.endswith("; device=auto takes the best\n")
    assert said.code == 1 and not (here / "run").exists()


def test_missing_mnist_offline_names_its_place_and_an_alternative(
    command, here, monkeypatch
):
    mnist = importlib.import_module("torchvision.datasets.mnist")

    def refuse(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr(mnist, "download_and_extract_archive", refuse)
    said = command("hydra.run.dir=run", "data=mnist", "data.root=empty")

    assert said.errors.startswith(
        f"error: MNIST is not in {here}/empty/MNIST/raw and could not be downloaded ("
    )
    assert "no route to host" in said.errors and said.errors.count("\n") == 1
    assert "ANDIRON_DATA_DIR" in said.errors and said.errors.endswith(
        "or use data=digits, which needs no download\n"
    )
    assert said.code == 1 and not (here / "run").exists()


def test_a_corrupt_mnist_file_is_named_by_its_folder_with_the_remedy(command, here):
    raw = here / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ):
        (raw / name).write_bytes(b"\x00\x00\x08\x01\x00\x00\x00\x09abc")

    said = command("hydra.run.dir=run", "data=mnist", "data.root=data")

    assert said.errors.startswith(f"error: {raw}: a file there is damaged (")
    assert said.errors.endswith("; remove the folder to download it again\n")
    assert said.code == 1 and not (here / "run").exists()


def test_a_damaged_digits_file_is_named_with_both_checksums(command, here, monkeypatch):
    digits = importlib.import_module("andiron.data.sources.digits")
    content = bytearray(digits.FILE.read_bytes())
    content[-1] ^= 1
    (here / "digits.safetensors").write_bytes(content)
    monkeypatch.setattr(digits, "FILE", here / "digits.safetensors")

    said = command("hydra.run.dir=run")

    assert said.errors.startswith(f"error: {here}/digits.safetensors: SHA-256 is ")
    assert (
        f"not {digits.SHA256}: the file is damaged; restore it from the repository" in said.errors
    )
    assert said.code == 1 and not (here / "run").exists()


@pytest.mark.parametrize(
    "run", ["command", "process"], ids=["in this process", "in a real process"]
)
@pytest.mark.parametrize("sweep", [[], ["-m"]], ids=["run", "sweep"])
def test_a_run_folder_that_cannot_be_made_is_named_with_the_way_out(run, sweep, here, request):
    (here / "file").touch()
    run = process if run == "process" else request.getfixturevalue("command")
    option = "hydra.sweep.dir" if sweep else "hydra.run.dir"

    said = run(*sweep, f"{option}=file/run")

    assert said.errors == (
        f"error: {here}/file/run cannot be made (Not a directory); choose another place with "
        f"{option}=...\n"
    )
    assert said.code == 1
    assert files_below(here) == ["file"]


def test_a_configuration_mistake_keeps_other_files_in_its_folder(command, here):
    (here / "run").mkdir()
    (here / "run" / "notes.txt").write_text("keep me")

    for mistake, code in (("lr=-1", 2), ("model._target_=no_such.Net", 1)):
        assert command("hydra.run.dir=run", mistake).code == code  # the folder is refused by then
        assert files_below(here) == ["run/notes.txt"]


@pytest.mark.parametrize(("bad", "words"), [
    ("lr=-1", "lr=-1: should be greater than 0"),
    ("lr=1e9", "update 3 (epoch 1, batch 3, samples "),
    ("lr=abc", "lr=abc: should be"),
])  # fmt: skip
def test_a_sweep_names_its_one_bad_job_and_runs_the_others(bad, words, command, here):
    values = f"lr=0.05,{bad.removeprefix('lr=')},0.025"

    said = command("-m", "optimizer=sgd", values, "hydra.sweep.dir=sweep", "hydra/launcher=basic")

    assert said.code != 0
    assert f"{here}/sweep/1 (" in said.errors and words in said.errors
    assert "sweep/0" not in said.errors and "sweep/2" not in said.errors
    assert [status(here / "sweep" / job)["status"] for job in "02"] == ["done", "done"]
    assert (
        not (here / "sweep" / "1" / "status.json").exists()
        or status(here / "sweep" / "1")["status"] == "failed"
    )


def test_a_sweep_over_a_choice_that_is_not_there_starts_no_job(command, here):
    said = command("-m", "optimizer=adam,adamm", "hydra.sweep.dir=sweep")

    (problem,) = said.problems
    assert problem.startswith(*REFUSED["optimizer=adamm"])
    assert said.code == 2
    assert list(here.rglob("status.json")) == []

"""A run of two processes without slices, asked by two again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import andiron
from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron_lab.ask import conditions

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def processes(preloaded_processes, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two processes with a checkpoint after every fifth of its 30 updates."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = "model=convnet", "model.dropout=0.2", "batch_size=130", "num_epochs=3", "log_every=1"
    saves = "checkpoint.last=5", "checkpoint.every=5", "render=plain", f"hydra.run.dir={folder}"
    _in_two(ROOT / "train.py", *options, *saves)
    return folder


def test_two_processes_ask_what_two_trained(run):
    done = json.loads(_in_two("-m", "andiron", "recheck", run, "--from-start", "--json"))
    assert done["same_bits"] and [value["last"] for value in done["segments"]] == [
        10,
        15,
        20,
        25,
        30,
    ]
    assert all(value["tensors"] and value["values"] for value in done["segments"])

    (asked,) = _in_two("-m", "andiron", "samples", run, "--update", 12, "--json").splitlines()
    answer = json.loads(asked)
    (update,) = answer["updates"]
    losses = [value["loss"] for value in update["samples"]]
    assert answer["differences"] == [] and losses == sorted(losses, reverse=True)
    assert len({value["index"] for value in update["samples"]}) == 130
    assert sum(losses) / 130 == pytest.approx(update["loss"], rel=1e-5)


def test_bisect_starts_as_many_processes_as_trained_the_run(run):
    asked = andiron.load(run).ask.bisect("optimizer.eps=1e-6", updates=(12, 14))
    first = asked.first
    assert (asked.start, first.updates, first.where) == (10, 11, "weight of rank 0")
    assert first.what.startswith("network.features.0.weight[0], ") and not asked.notes
    same = andiron.load(run).ask.bisect("log_every=2", updates=(12, 14))
    assert (same.equal, same.agreed, same.notes) == (True, 14, [])
    with pytest.raises(errors.RunFolderError, match="2 processes cannot .* again: .*\n.*'lr'\\?"):
        andiron.load(run).ask.bisect("optimizer.lr=2", updates=(12, 14))


def test_each_process_has_its_own_part_of_an_update(run):
    made, said = conditions.made(conditions.Side(str(run)), 10, range(12, 13))
    inputs = [made[f"input of rank {rank}: {rank} inputs"] for rank in range(2)]
    assert [len(input_) for input_ in inputs] == [65, 65] and not inputs[0].equal(inputs[1])
    gradients = [made[f"gradient of rank {rank}: network.head.3.weight"] for rank in range(2)]
    assert gradients[0].equal(gradients[1]) and not said


@pytest.mark.parametrize("number", [10**6, 0, "2", None, True])
def test_a_forged_number_of_processes_is_refused(run, tmp_path, number):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    record = json.loads((copy / "provenance.json").read_text())
    (copy / "provenance.json").write_text(json.dumps(record | {"processes": number}))
    run_record.accept(RunFolder(copy))
    with pytest.raises(errors.RunFolderError, match=f"{number} processes trained it"):
        andiron.load(copy).ask.bisect("optimizer.eps=1e-6", updates=(12, 12))


def _in_two(*command: str | Path | int) -> str:
    """The output of a command that two processes of torchrun run."""
    torchrun = sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"
    ended = subprocess.run(
        [*torchrun, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout

"""A run of two processes without slices, asked by two again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[2]


def test_two_processes_ask_what_two_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    run = tmp_path / "run"
    options = "model=convnet", "model.dropout=0.2", "batch_size=130", "num_epochs=3", "log_every=1"
    saves = "checkpoint.last=5", "checkpoint.every=5", "render=plain", f"hydra.run.dir={run}"
    _in_two(ROOT / "train.py", *options, *saves)

    done = json.loads(_in_two("-m", "andiron", "recheck", run, "--from-start", "--json"))
    assert done["same_bits"] and [each["last"] for each in done["segments"]] == [10, 15, 20, 25, 30]
    assert all(each["tensors"] and each["values"] for each in done["segments"])

    (asked,) = _in_two("-m", "andiron", "samples", run, "--update", 12, "--json").splitlines()
    answer = json.loads(asked)
    (update,) = answer["updates"]
    losses = [each["loss"] for each in update["samples"]]
    assert answer["differences"] == [] and losses == sorted(losses, reverse=True)
    assert len({each["index"] for each in update["samples"]}) == 130
    assert sum(losses) / 130 == pytest.approx(update["loss"], rel=1e-5)


def _in_two(*command: str | Path | int) -> str:
    """The output of a command that two processes of torchrun run."""
    torchrun = sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"
    ended = subprocess.run(
        [*torchrun, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout

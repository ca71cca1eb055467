"""Observers and runs that never trained, in two processes of torchrun."""

import json
from pathlib import Path

import pytest

from andiron_lab.ask import bit_comparison
from train_processes import in_two, status, trained

pytestmark = pytest.mark.usefixtures("preloaded_processes")

OBSERVERS = """
class Target:
    def after_validation(self, learner, step):
        if step.values["accuracy"] > 0.9:
            learner.end("good enough")

class Freeze:
    every = 5
    def __init__(self, model):
        self.model = model
    def after_update(self, learner, step):
        self.model.network.layers[1].requires_grad_(False)

class Messages:
    def __init__(self, run_dir):
        self.file = run_dir.parent / "messages.txt"
    def after_validation(self, learner, step):
        if learner.world.rank == 0:
            with self.file.open("a") as file:
                file.write(f"{step.updates}\\n")
"""
CHOSEN = (
    "+observers={target: {_target_: mine.Target}, freeze: {_target_: mine.Freeze}, "
    "messages: {_target_: mine.Messages}}"
)
BROKEN = """
import os
from andiron.models import MLP

class Net(MLP):
    def __init__(self, input_shape, num_outputs):
        if os.environ.get("BROKEN") == os.environ["RANK"]:
            raise ZeroDivisionError("mine")
        super().__init__(input_shape, num_outputs, hidden=[7])
"""
NETWORK = ("~model", "+model={_target_: broken.Net}", "num_epochs=1", "hydra.run.dir=run")


def test_observers_do_the_same_alone_and_in_two_processes(tmp_path):
    (tmp_path / "mine.py").write_text(OBSERVERS)
    options = CHOSEN, "slices=2", "render=plain"
    trained(tmp_path, *options, "hydra.run.dir=alone")
    assert in_two(tmp_path, *options, "hydra.run.dir=two") == (0, "")
    for run in ("alone", "two"):
        facts = status(tmp_path / run)
        assert (facts["status"], facts["reason"]) == ("done", "good enough")
    assert bit_comparison.compare(tmp_path / "alone", tmp_path / "two") == []
    once = (tmp_path / "messages.txt").read_text().splitlines()
    assert once[: len(once) // 2] == once[len(once) // 2 :]  # from rank 0 alone


def test_a_mistake_in_any_rank_leaves_the_command_repeatable(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    run = Path(tmp_path / "run")
    assert in_two(tmp_path, *NETWORK, BROKEN="0")[0] == 1
    assert not run.exists()
    assert in_two(tmp_path, *NETWORK, BROKEN="1")[0] == 1
    assert json.loads((run / "status.json").read_text())["untrained"] is True
    assert "ZeroDivisionError: mine" in (run / "ranks" / "1.log").read_text()
    assert in_two(tmp_path, *NETWORK)[0] == 0
    assert status(run)["status"] == "done"

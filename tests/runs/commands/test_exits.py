"""A class of the user's own that ends the process or a loop fails the command, whatever code."""

import asyncio
import os
import sys

import pytest

from andiron.run_folder import RunFolder
from andiron.shell.cli import signals
from andiron.shell.run import status
from andiron.shell.training import train
from andiron.wings.runs import plan
from andiron.wings.trained import evaluate
from in_process import called
from proofs.lab_parts import find_lr

OWN = """import sys
from torch import nn
from andiron.tasks import Classifier

class Net(nn.Module):
    def __init__(self):
        sys.exit(0)

    def forward(self, inputs):
        return inputs

class Steps(Classifier):
    def train_step(self, batch):
        sys.exit()

class Raises(Classifier):
    def train_step(self, batch):
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 5:
            self.end()
        return super().train_step(batch)

class Validates(Classifier):
    def valid_step(self, batch):
        if self.is_over:
            sys.exit(0)
        return super().valid_step(batch)

    is_over = False
"""
RUN = ("num_epochs=1", "data=partial", "data.fraction=0.2", "render=plain")
NETWORK = "+model={_target_: my_exits.Net}"
ENDED = "ended the process (sys.exit({})); raise an error there instead"


@pytest.fixture
def own(here, monkeypatch):
    (here / "my_exits.py").write_text(OWN)
    monkeypatch.syspath_prepend(here)
    monkeypatch.delitem(sys.modules, "my_exits", raising=False)  # of another test's folder
    return here


@pytest.mark.parametrize(("options", "function", "code"), [
    (("~model", NETWORK), "my_exits.Net.__init__", 0),
    (("task={_target_: my_exits.Steps}",), "my_exits.Steps.train_step", None),
])  # fmt: skip
def test_a_run_whose_class_exits_has_failed(own, options, function, code):
    ended = called(train.main, *RUN, *options, "hydra.run.dir=run", cwd=own)

    assert ended.code == 1
    assert ended.errors.startswith(f"error: {function} ({own / 'my_exits.py'}:")
    assert ended.errors.endswith(f"): {ENDED.format(code)}\n")
    assert not (own / "run").exists()


def ended_by(own, monkeypatch, end):
    """A run whose task calls `end` in its fifth step."""
    import my_exits

    monkeypatch.setattr(my_exits.Raises, "end", end, raising=False)
    task = "task={_target_: my_exits.Raises}"
    return called(train.main, *RUN, task, "batch_size=16", "hydra.run.dir=run", cwd=own)


# not GeneratorExit: generators that tests check by their annotations replace it
@pytest.mark.parametrize("kind", [KeyboardInterrupt, StopIteration, asyncio.CancelledError])
def test_an_exception_that_ends_a_loop_fails_the_run_and_names_the_function(own, kind, monkeypatch):
    def end(task):
        raise kind

    ended = ended_by(own, monkeypatch, end)

    where = f"{__name__}.{end.__qualname__} ({__file__}:"
    assert ended.code == 1 and ended.errors.startswith(f"error: {where}")
    assert ended.errors.endswith(f"): raised {kind.__name__}; raise an error there instead\n")
    assert status.read(RunFolder(own / "run"))["status"] == "failed"


class Left(Exception):
    """The end of the process, in a test."""


@pytest.mark.parametrize(("code", "exit_code"), [(0, 1), (3, 3)])
def test_a_run_whose_class_leaves_at_once_has_failed(own, code, exit_code, monkeypatch):
    left = []

    def leave(code):
        left.append((code, status.read(RunFolder(own / "run"))))
        raise Left

    monkeypatch.setattr(signals, "_exit", leave)
    with pytest.raises(Left):
        ended_by(own, monkeypatch, lambda task: os._exit(code))

    [(number, content)] = left
    assert number == exit_code and content["status"] == "failed"
    assert content["reason"].endswith(f": ended the process (os._exit({code}))")
    assert f"{__name__}.test_a_run_whose_class_leaves" in content["reason"]


@pytest.mark.parametrize("main", [plan.main, find_lr.main])
def test_other_commands_name_the_class_that_exits(own, main):
    ended = called(main, "~model", NETWORK, "device=cpu", cwd=own)

    assert ended.code == 1 and ENDED.format(0) in ended.errors


def test_an_evaluation_that_exits_has_failed(own, monkeypatch):
    task = "task={_target_: my_exits.Validates}"
    assert called(train.main, *RUN, task, "hydra.run.dir=run", cwd=own).code == 0
    import my_exits

    monkeypatch.setattr(my_exits.Validates, "is_over", True)
    ended = called(evaluate.main, "run", "--trust", "my_exits", cwd=own)

    assert ended.code == 1 and "my_exits.Validates.valid_step" in ended.errors

"""A resume proved exact, and one that is not found out, by the script.

Most have the pieces of a run made one after the other in one process, which shows as much of the
learner's state and is three times as fast; that a piece is a process of its own, and what a signal
sent to it does, is shown apart.
"""

import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]
EVERYWHERE = ("0", "1", "mid", "edge", "validation", "epoch", "end", "test")
SMALL = ("data=partial", "num_epochs=2", "batch_size=20", "log_every=4", "device=cpu")
SETUPS = {
    "dropout, augmentation and an average": (
        "model=convnet", "model.hidden=32", "augmentation=[crop,shift]", "averages=ema",
    ),
    "two optimizers and a short last group": ("param_groups=muon", "model.hidden=[32,32]",
                                              "grads_accumulation=4", "batch_size=10"),
    "plateau": ("scheduler=plateau", "scheduler.patience=0", "scheduler.threshold=0.5",
                "num_epochs=3", "model.hidden=[32]"),
    "fp16": ("precision=fp16", "model._target_=parts.Loud", "batch_size=10"),
    "text": ("data=text", "data.path=squares.txt", "data.context_length=16", "model.layers=1",
             "model.heads=2", "model.dim=16", "model.dropout=0.1"),
}  # fmt: skip
PARTS = """
import random
import time

import numpy as np
import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


class Loud(Network):
    def forward(self, inputs):
        return self.body(inputs) * 100  # gradients of a loss scaled by 65,536 overflow at first


class Forgetful(Network):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__(input_shape, num_classes, hidden, dropout)
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, inputs):
        if self.training:
            self.seen += 1
        return self.body(inputs) / (1 + self.seen)


class Careful(Network):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__(input_shape, num_classes, hidden, dropout)
        self.register_buffer("seen", torch.zeros(()))

    forward = Forgetful.forward


class Drawing(Network):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__(input_shape, num_classes, hidden, dropout)
        self.steps = 0
        self.noise, self.idle = torch.Generator().manual_seed(7), torch.Generator()
        self.python, self.numpy = random.Random(7), np.random.default_rng(7)
        self.old_numpy = np.random.RandomState(7)

    def forward(self, inputs):
        self.steps += 1
        inputs = inputs + self.python.random() + self.numpy.random() + self.old_numpy.rand()
        return self.body(inputs + torch.rand(inputs.shape, generator=self.noise))


class Unsteady(Network):
    def forward(self, inputs):
        return self.body(inputs) * (1 + time.time() % 1)
"""


@dataclass(frozen=True)
class Said:
    """How the script ended, and the lines it printed."""

    code: int
    lines: list[str]
    errors: str


@pytest.fixture
def proof(tmp_path):
    """`andiron verify-resume` with some arguments, from an empty folder with a module `parts` of
    one's own.
    """
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "squares.txt").write_text(
        "".join(f"{number} by {number} is {number * number}\n" for number in range(300))
    )

    def run(*arguments):
        command = [sys.executable, ROOT / "scripts/andiron.py", "verify-resume", *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400
        )
        return Said(done.returncode, done.stdout.splitlines(), done.stderr)

    return run


def places(said):
    """The lines about the pieces, without their seconds."""
    return [
        re.sub(r", \d+\.\d s$", "", line)
        for line in said.lines
        if line.startswith(("straight", "piece"))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_a_run_stopped_everywhere_with_varied_workers_has_the_same_bits(tmp_path, proof, name):
    points = (*EVERYWHERE, "epoch:2") if name == "plateau" else EVERYWHERE
    said = proof(
        *SMALL, *SETUPS[name], "--at", *points, "--workers", "1", "2", "--here", "--keep", "runs"
    )

    assert (said.code, said.errors) == (0, ""), said.lines
    assert re.fullmatch(
        r"exact: \d+ tensors, \d+ logged values, \d+ TensorBoard scalars are the same bits",
        said.lines[-2],
    )
    straight, *stopped, rest = places(said)
    assert (
        straight == "straight: to the end"
        and rest == f"piece {len(points) + 1} (the rest): to the end"
    )
    words = [
        re.fullmatch(
            r"piece \d+ \((.*)\): stopped at update \d+, after \d+ batch(es)? of \w+", place
        )[1]
        for place in stopped
    ]
    assert sorted(words) == sorted(points) and words[0] == "0" and words[-2:] == ["end", "test"]
    recorded = json.loads((tmp_path / "runs" / "interrupted" / "provenance.json").read_text())[
        "resumes"
    ]
    # the stop at update 0 leaves nothing to resume; a resume without an update is not recorded
    updates = [int(re.search(r"at update (\d+)", place)[1]) for place in stopped]
    assert len(recorded) == sum(one < other for one, other in itertools.pairwise(updates[1:]))
    workers = 0
    for changes in (resume["changes"] for resume in recorded):
        before, now = changes.get("num_workers", [workers, workers])
        assert before == workers and now in (1, 2)
        workers = now
    if name == "plateau":
        assert len({*logged(tmp_path, "lr/base")}) > 1
    if name == "fp16":
        assert logged(tmp_path, "loss_scale")[-1] < 65536
        assert logged(tmp_path, "skipped_updates")[-1] > 1


def logged(tmp_path, name):
    lines = (tmp_path / "runs" / "straight" / "metrics.jsonl").read_text().splitlines()
    return [value for value in (json.loads(line).get(name) for line in lines) if value is not None]


@pytest.mark.slow
def test_segments_are_separate_processes_that_an_outside_signal_ends(tmp_path, proof):
    said = proof(
        *SMALL, "num_epochs=4", "--at", "signal", "validation:2", "end", "--random", "1", "--seed",
        "31", "--workers", "1",
    )  # fmt: skip

    assert (said.code, said.errors) == (0, "")
    assert said.lines[0] == "stops are drawn with --seed 31"
    assert said.lines[-1].startswith("exact: ")
    made = [place for place in places(said) if "stopped at" in place]
    assert any("(signal)" in place for place in made) and any(
        "(validation:2)" in place for place in made
    )
    # they are the same: nothing is left to be looked at
    assert not any((tmp_path / "outputs" / "verify_resume").iterdir())


@pytest.mark.slow
def test_a_buffer_that_no_checkpoint_holds_is_found_and_named(tmp_path, proof):
    said = proof(*SMALL, "log_every=1", "model._target_=parts.Forgetful", "--at", "3", "--here")

    assert said.code == 1 and said.errors == ""
    cause, folder = said.lines[-2:]
    first = next(line for line in said.lines if line.startswith("not exact: "))
    assert re.match(
        r"not exact: metrics.jsonl: train, epoch 1, of the window, update 4: loss is \S+, not \S+$",
        first,
    )
    assert re.fullmatch(r"and \d+ more", said.lines[said.lines.index(first) + 1])
    assert cause == (
        "likely cause: state that is not saved (made straight a second time the run is the same). "
        "The first difference was logged 1 update after the resume at 3 (update 3, after 3 "
        "batches of train). the non-persistent buffer 'seen' of network (Forgetful) changes in "
        "training (0.0 to 3.0) and is in no checkpoint: register it with persistent=True"
    )
    kept = Path(folder.removeprefix("the runs are in "))
    assert kept.parent == tmp_path / "outputs" / "verify_resume"
    assert {path.name for path in kept.iterdir()} == {"straight", "interrupted", "straight_again"}


@pytest.mark.slow
def test_the_same_counter_in_a_buffer_that_is_saved_is_exact(proof):
    said = proof(*SMALL, "model._target_=parts.Careful", "--at", "3", "--here")

    assert said.code == 0 and said.lines[-1].startswith("exact: ")


@pytest.mark.slow
def test_only_changed_generators_and_attributes_are_named(proof):
    said = proof(*SMALL, "model._target_=parts.Drawing", "--at", "mid", "--here")

    assert said.code == 1
    named = re.findall(
        r"the (generator|attribute) '(\w+)' of network \(Drawing\) changes in training",
        said.lines[-2],
    )
    generators = [("generator", name) for name in ("noise", "python", "numpy", "old_numpy")]
    assert named == [("attribute", "steps"), *generators]
    assert "(0 to 4)" in said.lines[-2]  # 3 updates and a batch of validation
    assert (
        "draw from torch's default generators, which start anew at every update" in said.lines[-2]
    )


@pytest.mark.slow
def test_an_irreproducible_run_is_distinguished_from_unsaved_state(proof):
    said = proof(*SMALL, "model._target_=parts.Unsteady", "--at", "mid", "--here")

    assert said.code == 1
    cause = (
        "likely cause: the run is not reproducible by itself: made straight a second time it "
        "differs too, first in metrics"
    )
    assert said.lines[-2].startswith(cause)

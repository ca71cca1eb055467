"""Stretches of runs that are made again: the bits of the run, and what instruments see."""

import json

import pytest
import torch

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config.trust import LIST_ALONE
from andiron.shell.training import train
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.instruments import Instrument
from in_process import called

SMALL = (
    "batch_size=140", "log_every=4", "checkpoint.last=20", "num_epochs=3", "render=plain",
)  # fmt: skip
KINDS = {
    "plain": (),
    "accumulation, validation within an epoch": (
        "grads_accumulation=3", "validate_every=2", "checkpoint.every=3",
    ),
    "dropout, EMA, plateau, early stopping": (
        "model=convnet", "model.dropout=0.3", "averages=ema", "scheduler=plateau",
        "early_stopping=patience",
    ),
    "SAM and clipping": ("sam=0.05", "gradients=clip_norm"),
    "slices": ("slices=4",),
}  # fmt: skip


class Seen(Instrument):
    def __init__(self):
        self.updates, self.moments, self.moved = [], [], []

    def before(self, update):
        self.moments.append("before")
        self.weights = [parameter.clone() for parameter in update.learner.model.parameters()]

    def computed(self, update):
        self.moments.append("computed")
        assert all(map(torch.equal, self.weights, update.learner.model.parameters()))
        self.updates.append(update)

    def after(self, update):
        self.moments.append("after")
        weights = update.learner.model.parameters()
        self.moved.append(not all(map(torch.equal, self.weights, weights)))


def run_of(folder, *options):
    ended = called(train.main, *SMALL, *options, f"hydra.run.dir={folder}")
    assert ended.code == 0, ended.errors
    return Recorded(RunFolder(folder), LIST_ALONE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_stretch_between_two_checkpoints_has_the_bits_of_the_run(tmp_path, kind):
    run = run_of(tmp_path, *KINDS[kind])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    places, tensors, values = [0, *sorted({*run.saved} - {0})], 0, 0
    for start, last in zip(places, places[1:], strict=False):
        seen = Seen()
        stretch = run.updates(start + 1, last, seen)
        assert [stretch.start, stretch.last, stretch.differences] == [start, last, []]
        assert [update.number for update in seen.updates] == [*range(start + 1, last + 1)]
        assert seen.moments == ["before", "computed", "after"] * (last - start)
        assert all(seen.moved)
        tensors += stretch.tensors
        values += stretch.values
    assert tensors and values and len(places) > 3
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_an_edited_value_or_weight_is_named(tmp_path):
    run = run_of(tmp_path)
    lines = run.folder.metrics.read_text().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if json.loads(line)["updates"] == 12)
    edited = json.loads(lines[number])
    edited["loss"] += 1e-9
    lines[number] = json.dumps(edited) + "\n"
    run.folder.metrics.write_text("".join(lines))
    (difference,) = run.updates(11, 20).differences
    assert (difference.updates, difference.what) == (12, "loss")
    assert run.updates(21, 30).differences == []
    with pytest.raises(errors.SelectionError, match="ends after update 30"):
        run.updates(29, 31)


def test_an_option_that_changed_on_resume_has_the_value_of_its_updates(tmp_path):
    run_of(tmp_path, "num_epochs=1", "lr=0.01")
    again = f"resume={tmp_path}", "lr=0.001", "resume_allow=[lr]", "num_epochs=2"
    assert called(train.main, *again).code == 0
    run = Recorded(RunFolder(tmp_path), LIST_ALONE)
    assert run.updates(1, 10).differences == run.updates(11, 20).differences == []
    across = run.updates(5, 15, start=0)
    assert across.differences == [] and across.values and across.tensors

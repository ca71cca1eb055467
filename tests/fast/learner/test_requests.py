"""Requests while a run trains: save, validate, pause; the bits stay the same."""


import pytest
import torch
from conftest import without_time
from small_digits import BATCHES, LR, builder, classifier, loaders, same

from andiron import errors
from andiron.checkpoint import KeepLast, load
from andiron.interrupter import Interrupter
from andiron.learner import EarlyStopping
from andiron.optim import Ema, Optimizer
from andiron.schedules import Plateau


def requesting(planned, stops_in_valid_after=None):
    """An interrupter with requests after given numbers of updates."""

    def rule(split, updates, batch):
        for name in planned.pop(updates, ()) if split == "train" else ():
            interrupter.request(name)
        return "for a test" if (split, updates) == ("valid", stops_in_valid_after) else None

    interrupter = Interrupter(stop_rule=rule)
    return interrupter


class Kept(list):
    """A writer that keeps the points, without times."""

    def write(self, point):
        values = {
            name: value
            for name, value in point.values.items()
            if not name.startswith(("time/", "system/"))
        }
        self.append((point.split, point.updates, point.epoch, point.whole_epoch, values))

    def close(self):
        pass


def made(folder, interrupter=None):
    """A learner whose schedule, averages and stopping rule observe validations; its points."""
    kept, model = Kept(), classifier()
    made = (
        builder(folder, kept, num_epochs=3)
        .with_file_checkpointer(KeepLast(100))
        .averages(ema=Ema(0.9))
        .early_stopping(rule=EarlyStopping(metric="loss", patience=3, restores_best=True))
    )
    if interrupter is not None:
        made.interrupter(interrupter)
    schedule = Plateau(initial_lr=LR, metric="loss", patience=1)
    return made.build(model, Optimizer(torch.optim.Adam, model), schedule), kept


def state_of(learner):
    state = without_time(learner.state().state)
    state["metric_log"].pop("writers")
    return state


def test_saving_and_validating_on_request_change_nothing_of_a_run(tmp_path):
    straight, points = made(tmp_path / "a")
    straight.fit(*loaders())
    requests = {2: ["validate"], 5: ["save"], BATCHES: ["validate"], 9: ["validate", "save"]}
    asked, more = made(tmp_path / "b", requesting(dict(requests)))
    asked.fit(*loaders())
    resumed, _ = made(tmp_path / "c")
    resumed.load(load(tmp_path / "b" / "checkpoints" / "step-10"))
    resumed.fit(*loaders())

    requested = [point for point in more if point[0].startswith("valid") and not point[3]]
    assert [point[:2] for point in requested] == [
        (split, updates) for updates in (3, 8, 10) for split in ("valid", "valid-ema")
    ]
    assert [point for point in more if point not in requested] == points
    for other in (asked, resumed):
        assert same(straight.model.state_dict(), other.model.state_dict())
        assert state_of(straight) == state_of(other)
    saved = {path.name for path in (tmp_path / "b" / "checkpoints").glob("step-*")}
    assert saved >= {"step-6", "step-10"}  # on the disk at once, whatever is saved after them


def test_a_validation_on_request_that_is_interrupted_is_given_up(tmp_path):
    learner, points = made(tmp_path, requesting({2: ["validate"]}, stops_in_valid_after=3))
    with pytest.raises(errors.Interrupted, match="for a test"), learner:
        learner.fit(*loaders())

    assert not [point for point in points if point[0] == "valid"]
    assert (tmp_path / "checkpoints" / "step-3").is_dir()

"""Observers: called after updates and validations, with their state in the checkpoints."""

import json

import pytest
import torch
from small_digits import DIGITS, LR, TRAIN, VALID, builder, classifier, loaders, same
from threaded_world import in_threads

from andiron import errors
from andiron.data import DataLoader
from andiron.learner import Step
from andiron.learner.extras.observers import Observers
from andiron.optim import Optimizer


class Counts:
    """Notes every call; its state is the notes."""

    def __init__(self, every=None):
        self.seen = []
        if every is not None:
            self.every = every

    def after_update(self, learner, step):
        self.seen.append(["update", step.updates])

    def after_validation(self, learner, step):
        self.seen.append(["validation", step.updates])

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = list(state["seen"])


class Ends:
    """Ends the run at an update, or at a validation below a loss."""

    def __init__(self, update=None, loss=0.0):
        self.update, self.loss = update, loss

    def after_update(self, learner, step):
        if step.updates == self.update:
            learner.end(f"update {self.update}")

    def after_validation(self, learner, step):
        if step.values["loss"] < self.loss:
            learner.end("low enough")


class Idle:
    def after_update(self, learner, step):
        pass


def made(folder, num_epochs=2, **observers):
    model = classifier()
    chosen = builder(folder, num_epochs=num_epochs).with_file_checkpointer().observers(**observers)
    return chosen.build(model, Optimizer(torch.optim.SGD, model), LR)


def fitted(folder, **observers):
    with made(folder, **observers) as learner:
        learner.fit(*loaders())
    return learner


def test_an_idle_observer_changes_no_bit(tmp_path):
    plain, observed = fitted(tmp_path / "a"), fitted(tmp_path / "b", idle=Idle())
    assert same(plain.model.state_dict(), observed.model.state_dict())


@pytest.mark.parametrize(("every", "updates"), [
    (None, range(1, 15)),
    (3, [3, 6, 9, 12]),
    ("1epochs", [7, 14]),
    ("2epochs", [14]),
    ("0.5epochs", [4, 8, 12]),
    ({"updates": 5, "epochs": 1}, [5, 7, 10, 14]),
    ("1000minutes", []),
])  # fmt: skip
def test_updates_are_observed_at_the_cadence_of_the_observer(tmp_path, every, updates):
    counts = Counts(every)
    fitted(tmp_path, counts=counts)
    assert [number for kind, number in counts.seen if kind == "update"] == [*updates]
    assert [number for kind, number in counts.seen if kind == "validation"] == [7, 14]


def test_an_observer_may_have_only_one_of_the_methods():
    class Validates:
        def after_validation(self, learner, step):
            pass

    observers = Observers({"validates": Validates()})
    assert not observers.show(None, Step("update", 1, 1, 1, {}), is_last=False)
    assert observers.show(None, Step("validation", 1, 1, 1, {}), is_last=False)


@pytest.mark.parametrize(
    ("observer", "updates", "reason"),
    [
        (Ends(update=4), 4, "update 4"),
        (Ends(update=7), 7, "update 7"),
        (Ends(update=14), 14, None),  # its length is reached too
        (Ends(loss=99.0), 7, "low enough"),
    ],
)
def test_an_observer_ends_the_run_validated_saved_and_tested(tmp_path, observer, updates, reason):
    learner = fitted(tmp_path, ends=observer)
    assert (learner.updates, learner.ending) == (updates, reason)
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["status"], status["reason"]) == ("done", reason)
    rows = {(row["split"], row["metric"]) for row in learner.summary()["metrics"]}
    assert {("train", "loss"), ("valid", "loss"), ("test", "loss")} <= rows
    again = made(tmp_path)
    again.resume()
    assert again.updates == updates
    again.fit(*loaders())
    assert again.updates == 14


@pytest.mark.parametrize("left_at", [0, 4, 6, 7, 12, 14])
def test_the_state_of_an_observer_resumes(tmp_path, left_at):
    whole = Counts(2)
    fitted(tmp_path / "whole", counts=whole)
    with made(tmp_path / "left", counts=Counts(2)) as learner:
        for number, _ in enumerate(learner.steps(*loaders())):
            if number == left_at:
                break
    resumed = Counts(2)
    with made(tmp_path / "left", counts=resumed) as learner:
        learner.resume()
        learner.fit(*loaders())
    assert resumed.seen == whole.seen


def test_a_checkpoint_at_the_end_of_an_epoch_has_seen_its_validation(tmp_path):
    fitted(tmp_path, counts=Counts(3))
    resumed = Counts(3)
    with made(tmp_path, num_epochs=3, counts=resumed) as learner:
        learner.resume()
    assert resumed.seen[-1] == ["validation", 14]


def test_an_error_in_an_observer_ends_the_run_as_any_error_does(tmp_path):
    class Fails:
        def after_update(self, learner, step):
            raise errors.DataError("mine")

    with pytest.raises(errors.DataError, match="mine"):
        fitted(tmp_path, fails=Fails())


@pytest.mark.parametrize("slices", [None, 2])
def test_an_end_that_one_process_asks_for_ends_all_at_the_same_update(tmp_path, slices):
    def trained(world):
        model = classifier(dropout=0.0)
        own = {"ends": Ends(update=4 if world.rank == 1 else None)}
        chosen = builder(tmp_path / str(world.rank)).observers(**own).world(world)
        train = DataLoader(TRAIN, DIGITS.batcher, batch_size=8, shuffle_seed=3, world=world)
        valid = DataLoader(VALID, DIGITS.batcher, batch_size=7, world=world)
        with chosen.build(model, Optimizer(torch.optim.SGD, model), LR) as learner:
            for step in learner.steps(train, valid):
                last = step
        return last.updates, learner.ending

    assert in_threads(trained, 2, slices) == [(4, "update 4")] * 2

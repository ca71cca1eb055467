"""When a run validates and how long it is: cadences, lengths, and what follows a validation."""

import weakref

import pytest
import torch
from kept_points import Kept
from small_digits import BATCHES, LR, builder, classifier, loaders

from andiron import errors
from andiron.checkpoint import KeepLast
from andiron.learner import EarlyStopping
from andiron.learner.evaluation import measure
from andiron.metrics import Loss, Tally
from andiron.optim import Optimizer, Swa
from andiron.plain.cadence import Cadence
from andiron.schedules import Plateau


def fitted(folder, *, num_epochs=2, more=lambda b: b):
    """The learner after `fit`, and its points."""
    kept, model = Kept(), classifier()
    made = more(builder(folder, kept, num_epochs=num_epochs))
    with made.build(model, Optimizer(torch.optim.Adam, model), LR) as learner:
        learner.fit(*loaders())
    return learner, kept


def validated(points):
    """Updates and epoch of every validation."""
    return [(p.updates, p.epoch) for p in points if p.split == "valid" and p.values]


@pytest.mark.parametrize("every, expected", [
    ("1epoch", [(7, 1), (14, 2)]),
    ("2epochs", [(14, 2)]),
    (5, [(5, 1), (10, 2), (14, 2)]),
    ("0.5epochs", [(4, 1), (8, 2), (12, 2), (14, 2)]),
    ({"updates": 7, "epochs": 1}, [(7, 1), (14, 2)]),
    (100, [(14, 2)]),
])  # fmt: skip
def test_a_run_validates_when_due_and_at_its_end(tmp_path, every, expected):
    _, points = fitted(tmp_path, more=lambda b: b.options(validate_every=every))
    assert validated(points) == expected


def test_a_validation_before_the_first_update_is_made_on_request(tmp_path):
    _, points = fitted(tmp_path, more=lambda b: b.options(validate_first=True))
    assert validated(points) == [(0, 1), (7, 1), (14, 2)]


def test_when_a_run_validates_does_not_change_the_weights(tmp_path):
    once, _ = fitted(tmp_path / "a")
    often, _ = fitted(
        tmp_path / "b", more=lambda b: b.options(validate_every=2, validate_first=True)
    )
    for name, tensor in once.model.state_dict().items():
        assert torch.equal(tensor, often.model.state_dict()[name])


@pytest.mark.parametrize("num_updates", [1, 6, 7, 8, 17])
def test_a_run_is_as_long_as_its_updates_say(tmp_path, num_updates):
    learner, points = fitted(tmp_path, more=lambda b: b.options(num_updates=num_updates))
    assert learner.updates == num_updates
    assert learner.metric_log.progress.num_epochs == -(-num_updates // BATCHES)
    assert validated(points)[-1][0] == num_updates
    epochs = [p.updates for p in points if p.split == "train" and p.whole_epoch]
    assert epochs[-1] == num_updates


def test_a_longer_run_makes_the_same_first_updates(tmp_path):
    by_updates, _ = fitted(tmp_path / "a", more=lambda b: b.options(num_updates=2 * BATCHES))
    by_epochs, _ = fitted(tmp_path / "b")
    for name, tensor in by_epochs.model.state_dict().items():
        assert torch.equal(tensor, by_updates.model.state_dict()[name])


def means_of_epochs(points):
    return [p.values for p in points if p.split == "train" and p.whole_epoch]


@pytest.mark.parametrize("ends", [1, 4, 6])
def test_an_epoch_that_a_longer_run_completes_has_its_whole_means(tmp_path, ends):
    short, _ = fitted(tmp_path / "a", more=lambda b: b.options(num_updates=ends))
    kept, model = Kept(), classifier()
    longer = builder(tmp_path / "b", kept).options(num_updates=BATCHES)
    with longer.build(model, Optimizer(torch.optim.Adam, model), LR) as learner:
        learner.load(short.state())
        learner.fit(*loaders())
    _, whole = fitted(tmp_path / "c", more=lambda b: b.options(num_updates=BATCHES))
    (completed,), (expected,) = means_of_epochs(kept), means_of_epochs(whole)
    assert completed == pytest.approx(expected, rel=1e-6)  # other windows round otherwise


def test_the_means_of_an_unfinished_epoch_are_recorded_once(tmp_path):
    short, _ = fitted(tmp_path / "a", more=lambda b: b.options(num_updates=4))
    kept, model = Kept(), classifier()
    again = builder(tmp_path / "b", kept).options(num_updates=4)
    with again.build(model, Optimizer(torch.optim.Adam, model), LR) as learner:
        learner.load(short.state())
        learner.fit(*loaders())
    assert means_of_epochs(kept) == []


def test_early_stopping_counts_validations_after_its_warm_up(tmp_path):
    def rule(**arguments):
        never_better = EarlyStopping("loss", min_delta=100.0, patience=2, **arguments)
        return lambda b: b.options(validate_every=2).early_stopping(rule=never_better)

    assert fitted(tmp_path / "a", more=rule())[0].updates == 6  # a gain at 2, none at 4 and 6
    assert fitted(tmp_path / "b", more=rule(not_before=7))[0].updates == 10  # counts 8 and 10


def test_what_waits_for_train_values_begins_with_the_first_log_point(tmp_path):
    rule = EarlyStopping("loss", split="train", min_delta=100.0, patience=2)
    schedule = Plateau(LR, 0.5, patience=1, threshold=0.99, split="train")
    made = (
        builder(tmp_path, Kept())
        .options(validate_every=2, validate_first=True)
        .early_stopping(rule=rule)
    )
    model = classifier()
    with made.build(model, Optimizer(torch.optim.Adam, model), schedule) as learner:
        learner.fit(*loaders())
    assert learner.updates == 8  # log points 3 and 6: a gain at 4, none at 6 and 8
    assert schedule.lr < LR


def test_what_waits_for_an_average_begins_with_its_first_validation(tmp_path):
    rule = EarlyStopping("loss", split="valid-swa", min_delta=100.0, patience=2)
    schedule = Plateau(LR, 0.5, patience=1, threshold=0.99, split="valid-swa")
    made = builder(tmp_path, Kept()).options(validate_every=2).averages(swa=Swa(3))
    model = classifier()
    made = made.early_stopping(rule=rule).build(model, Optimizer(torch.optim.Adam, model), schedule)
    with made as learner:
        learner.fit(*loaders())
    assert learner.updates == 8  # averaged from update 3 on: a gain at 4, none at 6 and 8
    assert schedule.lr == LR / 2


def test_a_rule_and_a_plateau_of_an_earlier_run_begin_anew(tmp_path):
    rule = EarlyStopping("loss", min_delta=100.0, patience=3)
    schedule, ends = Plateau(LR, 0.5, patience=0, threshold=0.99), []
    for run in ("a", "b"):
        model = classifier()
        made = builder(tmp_path / run, Kept()).options(validate_every=2).early_stopping(rule=rule)
        with made.build(model, Optimizer(torch.optim.Adam, model), schedule) as learner:
            learner.fit(*loaders())
        ends.append((learner.updates, schedule.lr, model.state_dict()))
    assert [end[:2] for end in ends] == [(8, LR / 8), (8, LR / 8)]
    assert all(torch.equal(tensor, ends[1][2][name]) for name, tensor in ends[0][2].items())


def test_checkpoints_within_an_epoch_know_their_validation(tmp_path):
    def often(b):
        cadence = {"updates": 3}
        return b.options(validate_every=cadence).with_file_checkpointer(
            KeepLast(9), Cadence(updates=3)
        )

    learner, _ = fitted(tmp_path, more=often)
    splits = {saved.updates: sorted(saved.values) for saved in learner.checkpointer.saved}
    assert splits[3] == splits[6] == ["train", "valid"] and splits[0] == []


def test_validations_by_the_clock_are_refused_where_training_follows_them(tmp_path):
    rule = EarlyStopping("loss", patience=2)
    with pytest.raises(errors.ConfigError) as raised:
        fitted(
            tmp_path, more=lambda b: b.options(validate_every="1minutes").early_stopping(rule=rule)
        )
    assert raised.value.problems == (
        "validate_every=1minutes: rule would depend on the machine's speed; give updates or epochs",
    )
    _, points = fitted(tmp_path / "b", more=lambda b: b.options(validate_every="9minutes"))
    assert validated(points) == [(14, 2)]


def test_a_validation_within_an_epoch_leaves_a_line(tmp_path, caplog):
    caplog.set_level("INFO", logger="andiron")
    learner, _ = fitted(tmp_path, more=lambda b: b.options(validate_every=5))
    lines = [record.getMessage() for record in caplog.records if record.name == "andiron"]
    assert [line.partition(" loss")[0] for line in lines if line.startswith("update")] == [
        "update 5: valid", "update 10: valid",
    ]  # fmt: skip
    assert learner.summary()["metrics"][0]["split"] == "train"


def test_an_output_is_freed_before_the_next_is_computed():
    model, outputs = classifier(), []
    whole = model.valid_step

    def valid_step(batch):
        assert all(output() is None for output in outputs)
        item = whole(batch)
        outputs.append(weakref.ref(item))
        return item

    model.valid_step = valid_step

    class Counted(Loss):  # items of a class without its own `count_items` are counted at once
        def __call__(self, item):
            return super().__call__(item)

    measure(model, loaders()[1], Tally([Counted()]))
    assert len(outputs) == 3

"""Stopping anywhere and going on: the same bits, the same points, as never having stopped."""

import functools

import pytest
import small_digits
import torch
from conftest import without_time
from kept_points import Rewound
from small_digits import BATCHES, DIGITS, LR, classifier, lengthen, loaders, same, two_optimizers

from andiron import errors
from andiron.checkpoint import Cadence, KeepLast, load
from andiron.interrupter import Interrupter
from andiron.learner import LearnerBuilder
from andiron.learner.extras.early_stopping import EarlyStopping
from andiron.metrics import AUROC, Loss
from andiron.models import ConvNet
from andiron.optim import Ema, Optimizer, Swa
from andiron.schedules import Plateau, Warmup
from andiron.tasks import Classifier
from refusals import message_of

EPOCHS = 3
builder = functools.partial(small_digits.builder, num_epochs=EPOCHS)


def plateau():
    return Warmup(Plateau(LR, patience=1, threshold=0.9), 3)


def patience():
    return EarlyStopping(metric="loss", patience=2, restores_best=True)


def with_dropped_updates(made):
    """Leaves out two of the updates, the last of the second epoch among them."""
    passes, asked = made.updater.nonfinite.passes, []

    def some(actual):
        place = made.position.epoch, made.position.first_batch
        asked.append(place)
        return place not in ((0, 3), (1, 6)) and passes(actual)

    made.updater.nonfinite.passes = some

    def leave_out(*arguments):
        made.updater.nonfinite.skipped += 1

    made.updater.nonfinite.leave_out = leave_out
    return made


def foreign_metrics():
    """States of every kind: sums, a maximum and a list, and all arguments."""
    torchmetrics = pytest.importorskip("torchmetrics")
    scores = pytest.importorskip("andiron_lab.scores")

    def of(metric, inputs=None):
        return scores.Torchmetrics(metric, higher_is_better=True, inputs=inputs)

    return (
        of(torchmetrics.classification.MulticlassF1Score(10)),
        of(torchmetrics.MaxMetric(), lambda item: item.output),
        of(torchmetrics.classification.MulticlassCalibrationError(10)),
        of(torchmetrics.PearsonCorrCoef(), lambda item: (item.output[:, 0], item.targets.float())),
    )


def adam(model):
    return Optimizer(torch.optim.Adam, model)


class Counting:
    """A schedule of a user's own, with a state."""

    def __init__(self):
        self.calls = 0

    def __call__(self, updates):
        self.calls += 1
        return LR / (1 + self.calls / 50)

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


SETUPS = {
    "adam": lambda b, m: b.build(m, adam(m), LR),
    "two optimizers, accumulation and a short last group":
        lambda b, m: b.options(grads_accumulation=4).build(m, two_optimizers(m), LR),
    "averages": lambda b, m: b.averages(ema=Ema(0.9), swa=Swa(10)).build(m, adam(m), LR),
    "a plateau in a warm-up": lambda b, m: b.build(m, adam(m), plateau()),
    "a plateau in a group": lambda b, m: b.build(m, two_optimizers(m, schedule=plateau()), LR),
    "fp16": lambda b, m: b.options(precision="fp16").build(m, adam(m), LR),
    "frozen until before the edge":
        lambda b, m: b.build(m, two_optimizers(m, frozen_updates=5), LR),
    # resumed at the very update of the thaw, it stayed frozen for good
    "frozen until the edge": lambda b, m: b.build(m, two_optimizers(m, frozen_updates=7), LR),
    "frozen until after the edge":
        lambda b, m: b.build(m, two_optimizers(m, frozen_updates=16), LR),
    "sam": lambda b, m: b.options(sam=0.05).build(m, adam(m), LR),
    "early stopping": lambda b, m: b.early_stopping(rule=patience()).build(m, adam(m), LR),
    "a metric that gathers": lambda b, m: b.metric_train_numeric(AUROC()).build(m, adam(m), LR),
    "metrics of torchmetrics":
        lambda b, m: b.metric_train_numeric(*foreign_metrics()).build(m, adam(m), LR),
    "a validation every three updates": lambda b, m: (
        b.options(validate_every=3, validate_first=True).averages(ema=Ema(0.9)).early_stopping(
            rule=EarlyStopping("loss", patience=4, not_before=9, restores_best=True)
        ).build(m, adam(m), plateau())
    ),
    "a number of updates":
        lambda b, m: b.options(num_updates=20, validate_every="0.4epochs").build(m, adam(m), LR),
    "updates that are left out": lambda b, m: with_dropped_updates(b.build(m, adam(m), LR)),
    "a schedule of a user's own": lambda b, m: b.build(m, adam(m), Counting()),
}  # fmt: skip
PLACES = {  # in the order they come, by split, batch of the pass and epoch
    "before the first update": ("train", 0, 0),
    "after an update": ("train", 4, 0),
    "in the first validation": ("valid", 1, 0),
    "at the edge of an epoch": ("train", 0, 1),
    "in the middle of an epoch": ("train", 4, 1),
    "after an epoch's last update": ("train", BATCHES, 1),
    "in a later validation": ("valid", 2, 2),
    "in the test": ("test", 1, None),
}


class StopsIn:
    """A stop rule: one of the places above."""

    def __init__(self, place):
        self.place, self.learner = place, None

    def __call__(self, split, updates, batch):
        epoch = self.learner.position.epoch
        is_there = self.place in ((split, batch, epoch), (split, batch, None))
        return "for a test" if is_there else None


def pieces(tmp_path, name, places, kept, **options):
    """The learner of the last piece of a run that is stopped at every place, each time made anew
    and resumed.
    """
    for number, place in enumerate([*places, None]):
        stops = StopsIn(place)
        made = SETUPS[name](
            builder(tmp_path, kept, **options)
            .with_file_checkpointer(KeepLast(2))
            .interrupter(Interrupter(stop_rule=stops)),
            classifier(),
        )
        stops.learner = made
        if number:
            made.resume()
        with made:
            if place is None:
                made.fit(*loaders())
            else:
                assert "for a test" in message_of(errors.Interrupted, made.fit, *loaders())
    return made


@pytest.mark.parametrize("name", SETUPS)
def test_stopping_at_every_kind_of_place_equals_never_stopping(tmp_path, name):
    kept, again = Rewound(), Rewound()
    straight = SETUPS[name](builder(tmp_path / "straight", kept), classifier())
    straight.fit(*loaders())

    stopped = pieces(tmp_path / "stopped", name, PLACES.values(), again)

    assert same(straight.model.state_dict(), stopped.model.state_dict())
    assert same(straight.optimizer.state_dict(), stopped.optimizer.state_dict())
    for view, weights in straight.exports().items():
        assert same(weights, stopped.exports()[view])
    one, other = (without_time(made.state().state) for made in (straight, stopped))
    for state in (one, other):
        state["metric_log"].pop("writers")
    assert one == other
    assert again.untimed() == kept.untimed() and kept


def test_a_run_stopped_early_and_interrupted_in_its_test_names_its_epoch(tmp_path):
    kept, goal = Rewound(), EarlyStopping(metric="loss", goal=100.0)
    for place in (("test", 1, 1), None):
        stops = StopsIn(place)
        made = (
            builder(tmp_path, kept)
            .with_file_checkpointer()
            .early_stopping(rule=goal)
            .interrupter(Interrupter(stop_rule=stops))
        )
        stops.learner = made = made.build(
            model := classifier(), Optimizer(torch.optim.Adam, model), LR
        )
        with made:
            if place is None:
                made.resume()
                made.fit(*loaders())
            else:
                with pytest.raises(errors.Interrupted):
                    made.fit(*loaders())
    assert [(point.split, point.epoch) for point in kept][-2:] == [("valid", 1), ("test", 1)]


class Broken:
    """A training loader that raises in the middle of the third epoch, as a machine that fails."""

    def __init__(self, loader):
        self.loader, self.num_items = loader, loader.num_items

    def __len__(self):
        return len(self.loader)

    def epoch(self, epoch, first_batch=0):
        for number, batch in enumerate(self.loader.epoch(epoch, first_batch), first_batch):
            if (epoch, number) == (2, 5):
                raise RuntimeError("the machine fails")
            yield batch


def test_what_was_logged_after_the_newest_checkpoint_is_there_once(tmp_path):
    kept, again = Rewound(), Rewound()
    SETUPS["adam"](builder(tmp_path / "straight", kept), classifier()).fit(*loaders())
    train, valid, test = loaders()
    with SETUPS["adam"](builder(tmp_path, again).with_file_checkpointer(), classifier()) as made:
        assert "the machine fails" in message_of(RuntimeError, made.fit, Broken(train), valid, test)
    assert again.untimed()[-1][1] == 18  # a window was logged after the checkpoint at 14

    with SETUPS["adam"](builder(tmp_path, again).with_file_checkpointer(), classifier()) as made:
        assert made.resume() == tmp_path / "checkpoints" / "step-14"
        made.fit(train, valid, test)
    assert again.untimed() == kept.untimed()


def test_a_run_without_any_checkpoint_is_an_error_and_never_a_fresh_start(tmp_path):
    made = SETUPS["adam"](builder(tmp_path).with_file_checkpointer(), classifier())
    assert "no checkpoint" in message_of(errors.DataError, made.resume)
    made = SETUPS["adam"](builder(tmp_path), classifier())
    words = "there are no checkpoints to resume from"
    assert words in message_of(errors.RunFolderError, made.resume)


def test_a_checkpoint_within_an_epoch_does_not_change_the_metrics(tmp_path):
    kept, often = Rewound(), Rewound()
    SETUPS["adam"](builder(tmp_path / "a", kept), classifier()).fit(*loaders())
    every_update = builder(tmp_path / "b", often).with_file_checkpointer(
        KeepLast(3), Cadence(updates=1, epochs=None)
    )
    with SETUPS["adam"](every_update, classifier()) as made:
        made.fit(*loaders())

    assert often.untimed() == kept.untimed()
    # the end is saved whatever the cadence
    assert load(tmp_path / "b" / "checkpoints" / "step-21").state["batch"] == 0


def test_an_update_that_was_broken_off_is_made_by_the_next_fit(tmp_path):
    straight = SETUPS["adam"](builder(tmp_path / "a"), classifier())
    straight.fit(*loaders())
    made, calls = SETUPS["adam"](builder(tmp_path / "b"), classifier()), []
    whole = made.model.train_step

    def once_broken(batch):
        calls.append(batch)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return whole(batch)

    made.model.train_step = once_broken
    with pytest.raises(KeyboardInterrupt):
        made.fit(*loaders())
    made.fit(*loaders())
    assert made.updates == straight.updates
    assert same(made.model.state_dict(), straight.model.state_dict())


@pytest.mark.parametrize("every", [BATCHES, 2 * BATCHES])
def test_a_checkpoint_due_at_an_epochs_end_includes_its_validation(tmp_path, every):
    made = builder(tmp_path).with_file_checkpointer(
        KeepLast(9), Cadence(updates=every, epochs=None)
    )
    with SETUPS["adam"](made, classifier()) as made:
        made.fit(*loaders())
        assert [saved.updates for saved in made.checkpointer.saved] == sorted(
            {0, *range(every, 22, every), 21}
        )
        assert all("valid" in saved.values for saved in made.checkpointer.saved if saved.updates)


def test_a_rule_of_another_metric_begins_anew_and_another_seed_counts(tmp_path):
    first = EarlyStopping(metric="accuracy", direction="highest", patience=1)
    made = builder(tmp_path, num_epochs=2).with_file_checkpointer().early_stopping(rule=first)
    with made.build(model := classifier(), Optimizer(torch.optim.Adam, model), LR) as made:
        made.fit(*loaders())
    other = EarlyStopping(metric="loss", direction="lowest", patience=1)
    again = builder(tmp_path, num_epochs=3).with_file_checkpointer().early_stopping(rule=other)
    again.options(seed=7)
    with again.build(model := classifier(), Optimizer(torch.optim.Adam, model), LR) as again:
        again.resume()
        assert (other.observed.best, again.state().state["seed"]) == (None, 7)
        again.fit(*loaders())
    seen = other.observed
    assert (seen.epoch_of_best, seen.best) == (3, again.metric_log.latest["valid"]["loss"])


def test_a_learner_that_goes_back_sets_its_newer_checkpoints_aside(tmp_path):
    with SETUPS["adam"](
        builder(tmp_path).with_file_checkpointer(KeepLast(9)), classifier()
    ) as made:
        made.fit(*loaders())
        first = load(tmp_path / "checkpoints" / "step-7")
        made.load(first)
        made.fit(*loaders())
        assert [saved.updates for saved in made.checkpointer.saved] == [0, 7, 14, 21]
    assert {path.name for path in (tmp_path / "checkpoints").glob("*.unused")} == {
        "step-14.unused", "step-21.unused",
    }  # fmt: skip


def test_a_state_of_another_model_or_lacking_an_average_changes_nothing(tmp_path):
    made = SETUPS["adam"](builder(tmp_path), classifier())
    made.fit(*loaders())
    torch.manual_seed(2)
    wider = Classifier(ConvNet(DIGITS.input_shape, 10, hidden=17, dropout=0.5))
    for learner, words in (
        (SETUPS["adam"](builder(tmp_path), wider), "the state does not fit the model:\n"),
        (SETUPS["averages"](builder(tmp_path), classifier()),
         "averages ema, swa are not in the state: the state has none; build the"),
    ):  # fmt: skip
        before = learner.state()
        with pytest.raises(errors.MismatchError, match=words):
            learner.load(made.state())
        assert without_time(learner.state().state) == without_time(before.state)
        assert same(learner.state().model, before.model)


def test_a_state_stays_as_it_was_when_training_continues(tmp_path):
    made = SETUPS["averages"](builder(tmp_path, num_epochs=1), classifier())
    made.fit(*loaders())
    kept = made.state()
    for _ in range(2):
        lengthen(made, 2)
        made.fit(*loaders())
        after, again = made.state(), made.load(kept)
        assert again is None and made.updates == kept.state["updates"] == BATCHES
        assert same(made.state().model, kept.model) and not same(after.model, kept.model)
    made.fit(*loaders())
    assert same(made.state().model, after.model) and same(made.state().optimizer, after.optimizer)


def test_a_checkpoint_of_other_metrics_is_refused(tmp_path):
    made = SETUPS["adam"](builder(tmp_path), classifier())
    other = LearnerBuilder(tmp_path).metric_train_numeric(Loss()).with_writers()
    other = other.build(model := classifier(), adam(model), LR)
    words = "saved while loss, accuracy were measured, not loss; measure the same"
    assert words in message_of(ValueError, other.load, made.state())


def test_a_loader_without_first_batch_trains_unless_stopped_in_an_epoch(tmp_path):
    class OwnLoader:
        """A loader as users wrote them before."""

        def __init__(self, loader):
            self.loader, self.num_items = loader, loader.num_items

        def __len__(self):
            return len(self.loader)

        def epoch(self, epoch):
            return self.loader.epoch(epoch)

    train, valid, _ = loaders()
    made = SETUPS["adam"](builder(tmp_path, num_epochs=2), classifier())
    made.fit(OwnLoader(train), OwnLoader(valid))
    straight = SETUPS["adam"](builder(tmp_path, num_epochs=2), classifier())
    straight.fit(train, valid)
    assert same(made.model.state_dict(), straight.model.state_dict())


def test_what_the_network_froze_itself_is_frozen_after_a_resume(tmp_path):
    class Freezes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)])
            self.register_buffer("count", torch.zeros(()))

        def forward(self, inputs):
            self.count += self.training
            if self.count == 2:
                self.layers[0].requires_grad_(False)
            return self.layers[1](self.layers[0](inputs))

    batches = [(torch.full((5, 4), value), torch.arange(5) % 3) for value in (0.1, 0.7, 0.4)]

    def weights(folder, *lengths):
        for length in lengths:
            torch.manual_seed(0)
            model = Classifier(Freezes())
            made = LearnerBuilder(folder, num_epochs=length, resume=length > lengths[0])
            made = made.with_file_checkpointer().metric_valid_numeric(Loss()).renderer(None)
            with made.build(model, torch.optim.AdamW(model.parameters(), 0.1)) as learner:
                learner.fit(batches, batches)
        return model.state_dict()

    whole, resumed = weights(tmp_path / "a", 3), weights(tmp_path / "b", 1, 3)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)

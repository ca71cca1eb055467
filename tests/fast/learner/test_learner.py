"""The loop: the same bits as one written by hand, however data is loaded, validated, logged,
stopped and resumed.
"""

import json
import math
import time

import pytest
import torch
from conftest import without_time
from kept_points import Kept
from small_digits import (
    BATCH, BATCHES, DIGITS, LR, SEED, TEST, TRAIN, VALID, classifier, same,
)  # fmt: skip
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.nn import functional

from andiron import data, errors, randomness
from andiron.checkpoint import KeepLast, load
from andiron.learner import LearnerBuilder
from andiron.learner.run_host import NoHost
from andiron.metrics import Accuracy, Loss
from andiron.optim import Optimizer
from andiron.protocols import TrainOutput
from andiron.schedules import Linear
from andiron.tasks import Classifier

ORDER_SEED = 3


class Shown:
    """A renderer that keeps the names of its calls."""

    def __init__(self):
        self.calls = []

    def start(self, progress):
        self.calls.append("start")

    def epoch_ended(self, progress, seconds):
        self.calls.append(f"epoch {progress.epoch}")

    def stop(self):
        self.calls.append("stop")

    def show(self, summary):
        self.calls.append("show")


class Failing:
    """A loader that raises before the third batch of one epoch."""

    def __init__(self, loader, error, *, in_epoch=1):
        self.loader, self.error, self.in_epoch = loader, error, in_epoch
        self.num_items = loader.num_items

    def __len__(self):
        return len(self.loader)

    def epoch(self, epoch):
        for number, batch in enumerate(self.loader.epoch(epoch)):
            if (epoch, number) == (self.in_epoch, 2):
                raise self.error
            yield batch


def train_loader(*, batch_size=BATCH):
    return data.DataLoader(
        TRAIN, DIGITS.batcher, batch_size=batch_size, shuffle_seed=ORDER_SEED
    )


def measuring_loader(dataset=VALID, *, batch_size=6):
    return data.DataLoader(dataset, DIGITS.batcher, batch_size=batch_size)


def builder(folder, *, writers=(), num_epochs=2, log_every=3, seed=SEED):
    metrics = Loss(), Accuracy()
    return (
        LearnerBuilder(folder).metric_train_numeric(*metrics).metric_valid_numeric(
            *metrics
        ).with_writers(*writers).options(num_epochs=num_epochs, log_every=log_every, seed=seed)
    )  # fmt: skip


def saved(folder):
    """The names of a run's checkpoints."""
    return {path.name for path in (folder / "checkpoints").glob("step-*")}


def learner(folder, *, model=None, lr=LR, optimizer_class=torch.optim.Adam, **options):
    model = model or classifier()
    return builder(folder, **options).build(model, Optimizer(optimizer_class, model), lr)


def fitted(folder, *, train=None, valid=None, test=None, **options):
    """A learner after `fit`."""
    made = learner(folder, **options)
    made.fit(train or train_loader(), valid or measuring_loader(), test)
    return made


def by_hand(*, num_epochs, optimizer_class=torch.optim.Adam, lr=LR):
    """The model a plain loop trains, and the loss, the number of right answers and the size of
    every batch.
    """
    model, seen = classifier(), []
    optimizer = optimizer_class(model.parameters(), lr=lr, fused=True)
    model.train()
    for epoch in range(num_epochs):
        order = torch.randperm(
            len(TRAIN),
            generator=torch.Generator().manual_seed(randomness.derive(ORDER_SEED, "order", epoch)),
        )
        for indices in order.split(BATCH):
            inputs, targets = DIGITS.batcher(TRAIN.__getitems__(indices), torch.device("cpu"))
            torch.manual_seed(randomness.derive(SEED, "update", len(seen)))
            logits = model(inputs)
            loss = functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append((loss.item(), (logits.argmax(dim=1) == targets).sum().item(), len(targets)))
    return model, seen


@pytest.mark.parametrize("optimizer_class", [torch.optim.Adam, torch.optim.SGD])
def test_fit_is_the_loop_written_by_hand(tmp_path, optimizer_class):
    result = fitted(tmp_path, num_epochs=3, optimizer_class=optimizer_class)
    expected, _ = by_hand(num_epochs=3, optimizer_class=optimizer_class)
    assert same(result.model.state_dict(), expected.state_dict())


def test_resuming_from_a_checkpoint_on_the_disk_is_never_having_stopped(tmp_path):
    whole, model = fitted(tmp_path / "whole", num_epochs=3), classifier()
    stopped = builder(tmp_path).with_file_checkpointer()
    with stopped.build(model, Optimizer(torch.optim.Adam, model), LR) as stopped:
        stopped.fit(train_loader(), measuring_loader())
    resumed = learner(tmp_path, num_epochs=3, seed=99)  # the seed is the checkpoint's
    resumed.load(load(tmp_path / "checkpoints" / "step-14"))
    resumed.fit(train_loader(), measuring_loader())
    assert same(resumed.model.state_dict(), whole.model.state_dict())
    assert without_time(resumed.state().state) == without_time(whole.state().state)


class Drawing(Classifier):
    """Draws random numbers wherever it is measured."""

    def valid_step(self, batch):
        torch.rand(len(batch.targets))
        return super().valid_step(batch)


def test_validation_does_not_disturb_training(tmp_path):
    expected = fitted(tmp_path).model.state_dict()
    for valid in (
        measuring_loader(VALID.subset(range(3))),
        measuring_loader(TRAIN),
        measuring_loader(VALID, batch_size=1),
    ):
        assert same(
            fitted(tmp_path, valid=valid, test=measuring_loader(TEST)).model.state_dict(), expected
        )
    drawing = Drawing(classifier().network)
    assert same(fitted(tmp_path, model=drawing).model.state_dict(), expected)


def test_neither_logging_nor_checkpoints_disturb_training(tmp_path):
    expected = fitted(tmp_path, log_every=1000).model.state_dict()
    model = classifier()
    watched = builder(tmp_path, log_every=1).with_file_checkpointer(KeepLast(1)).renderer(Shown())
    with watched.build(model, Optimizer(torch.optim.Adam, model), LR) as made:
        made.fit(train_loader(), measuring_loader())
    assert same(model.state_dict(), expected)


def test_a_run_with_nothing_left_to_train_is_measured_as_it_is(tmp_path):
    kept = Kept()
    resumed = learner(tmp_path, num_epochs=2, writers=[kept])
    resumed.load(fitted(tmp_path, num_epochs=2).state())
    before = {name: tensor.clone() for name, tensor in resumed.model.state_dict().items()}
    resumed.fit(train_loader(), measuring_loader(), measuring_loader(TEST))
    assert [(point.split, point.updates, point.epoch) for point in kept] == [("test", 14, 2)]
    assert same(resumed.model.state_dict(), before)


def test_the_training_values_are_over_the_updates_in_the_window(tmp_path):
    kept = Kept()
    fitted(tmp_path, writers=[kept])
    _, seen = by_hand(num_epochs=2)
    windows = {3: (0, 3), 6: (3, 6), 7: (6, 7), 9: (7, 9), 12: (9, 12), 14: (12, 14)}
    result = {
        point.updates: point.values
        for point in kept
        if point.split == "train" and not point.whole_epoch
    }
    assert set(result) == set(windows)
    for updates, (start, end) in windows.items():
        count = sum(size for _, _, size in seen[start:end])
        assert result[updates]["accuracy"] == sum(right for _, right, _ in seen[start:end]) / count
        # at most 3 products and 2 sums in float32, each rounded by at most 2**-24
        expected = sum(loss * size for loss, _, size in seen[start:end]) / count
        assert result[updates]["loss"] == pytest.approx(expected, rel=5 * 2**-24)


def test_the_epochs_values_are_weighted_by_what_was_counted(tmp_path):
    kept = Kept()
    fitted(tmp_path, writers=[kept])
    _, seen = by_hand(num_epochs=2)
    epochs = [point.values for point in kept if point.split == "train" and point.whole_epoch]
    for values, batches in zip(epochs, (seen[:7], seen[7:]), strict=True):
        assert values["accuracy"] == sum(right for _, right, _ in batches) / 53
        # each of the at most 3 windows: 3 products and 2 sums in float32, each rounded by at most
        # 2**-24
        assert values["loss"] == pytest.approx(
            sum(loss * size for loss, _, size in batches) / 53, rel=5 * 2**-24
        )


def test_the_validation_values_come_from_evaluation_mode(tmp_path):
    kept = Kept()
    model = fitted(tmp_path, writers=[kept], test=measuring_loader(TEST)).model.eval()
    last = {point.split: point.values for point in kept if point.split != "train"}
    for split, dataset in (("valid", VALID), ("test", TEST)):
        inputs, targets = DIGITS.batcher(
            dataset.__getitems__(range(len(dataset))), torch.device("cpu")
        )
        logits = model(inputs)
        assert last[split]["accuracy"] == (logits.argmax(dim=1) == targets).sum().item() / len(
            dataset
        )
        # in one batch instead of several the matrix products sum in another order: float32 epsilon,
        # a few times
        expected = functional.cross_entropy(logits, targets).item()
        assert last[split]["loss"] == pytest.approx(expected, rel=1e-6)


def test_points_come_as_windows_epoch_validation_and_finally_test(
    tmp_path,
):
    kept = Kept()
    fitted(tmp_path, writers=[kept], test=measuring_loader(TEST))
    assert [(point.split, point.updates, point.epoch, point.whole_epoch) for point in kept] == [
        ("train", 3, 1, False), ("train", 6, 1, False), ("train", 7, 1, False),
        ("train", 7, 1, True), ("valid", 7, 1, True), ("train", 9, 2, False),
        ("train", 12, 2, False), ("train", 14, 2, False), ("train", 14, 2, True),
        ("valid", 14, 2, True), ("test", 14, 2, True),
    ]  # fmt: skip


def test_an_epoch_that_ends_on_a_log_point_has_no_empty_window(tmp_path):
    kept = Kept()
    fitted(tmp_path, writers=[kept], log_every=7)
    windows = [point for point in kept if point.split == "train" and not point.whole_epoch]
    assert [point.updates for point in windows] == [7, 14]
    watched = {
        "lr/base", "grad_norm/base", "update_ratio/base", "time/step", "time/data",
        "time/samples_per_second",
    }  # fmt: skip
    assert all(point.values.keys() == {"loss", "accuracy", *watched} for point in windows)


def test_the_logged_learning_rate_is_the_used_one(tmp_path):
    kept, used, schedule = Kept(), [], Linear(0.1, 0.0, 14)
    model = classifier()
    optimizer = Optimizer(torch.optim.Adam, model)
    step = optimizer.step
    optimizer.step = lambda lr, *arguments: (used.append(lr), step(lr, *arguments))[1]
    builder(tmp_path, writers=[kept]).build(model, optimizer, schedule).fit(
        train_loader(), measuring_loader()
    )
    assert used == [schedule(updates) for updates in range(14)]
    logged = {point.updates: point.values["lr/base"] for point in kept if "lr/base" in point.values}
    assert logged == {updates: used[updates - 1] for updates in (3, 6, 7, 9, 12, 14)}


@pytest.mark.parametrize(
    "log_every, batch_size, windows",
    [
        (3, 8, 6),  # 7 updates an epoch: after 3, 6, 7, 9, 12 and 14
        (1000, 8, 2),  # the end of each epoch
        (1000, 3, 2),  # 18 updates an epoch instead of 7
        (1, 8, 14),
    ],
)
@pytest.mark.parametrize("policy", ["ignore", "stop"])
def test_values_are_read_when_logged_but_for_one_read_an_update(
    tmp_path, log_every, batch_size, windows, policy, host_reads
):
    model = classifier()
    made = (
        builder(tmp_path, log_every=log_every)
        .options(on_nonfinite=policy)
        .build(model, Optimizer(torch.optim.Adam, model), LR)
    )
    train, valid = train_loader(batch_size=batch_size), measuring_loader()
    with host_reads() as reads:
        made.fit(train, valid)
    num_metrics, epochs = 2, 2
    guarded = made.updates if policy == "stop" else 0
    of_first_outputs = 1  # whether they are probabilities already
    assert reads.number == num_metrics * (windows + epochs) + guarded + of_first_outputs


class Plain(Classifier):
    """Hands out the gradients in a dict."""

    def train_step(self, batch):
        output = super().train_step(batch)
        vars(output).update(gradients={**output.gradients})  # the tests' checks of types refuse it
        return output


def test_gradients_in_a_plain_dict_are_refused(tmp_path):
    made = learner(tmp_path, model=Plain(classifier().network))
    with pytest.raises(errors.MismatchError, match="gradients are a dict; .*first.update"):
        made.fit(train_loader(), measuring_loader())


def test_training_without_gradients_is_refused(tmp_path):
    made = learner(tmp_path)
    with torch.no_grad(), pytest.raises(errors.MismatchError, match="train outside of torch.no_gr"):
        made.fit(train_loader(), measuring_loader())


class Attached(Classifier):
    """Hands out items that still hold on to the graph."""

    def train_step(self, batch):
        item = self.predict(batch)
        return TrainOutput(super().train_step(batch).gradients, item)


def test_an_item_that_was_not_detached_keeps_no_graph_alive(tmp_path):
    needing_gradients = []

    class Watched(Loss):
        def __call__(self, item):
            total, count = super().__call__(item)
            needing_gradients.append((item.loss.requires_grad, total.requires_grad))
            return total, count

    model = Attached(classifier().network)
    made = (
        LearnerBuilder(tmp_path)
        .metric_train_numeric(Watched())
        .with_writers()
        .options(num_epochs=1)
    )
    made.build(model, Optimizer(torch.optim.Adam, model), LR).fit(
        train_loader(), measuring_loader()
    )
    assert needing_gradients == [(True, False)] * BATCHES


def test_a_nan_loss_stops_the_run_and_leaves_its_files_whole(tmp_path):
    model = classifier()
    made = (
        LearnerBuilder(tmp_path)
        .metric_train_numeric(Loss(), Accuracy())
        .metric_valid_numeric(Loss(), Accuracy())
        .with_file_checkpointer()
        .options(num_epochs=3, log_every=3, seed=SEED)
        .build(
            model,
            Optimizer(torch.optim.SGD, model),
            lambda updates: math.inf if updates == 9 else LR,
        )
    )
    with pytest.raises(errors.NonFiniteError) as raised, made:
        made.fit(train_loader(), measuring_loader())
    samples = ", ".join(map(str, train_loader().indices(1, 3)))
    assert str(raised.value).startswith(
        f"update 11 (epoch 2, batch 4, samples {samples}) was not applied: parameter "
        "'network.features.0.weight' itself has NaN or infinity. The weights are unchanged. "
    )
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["split"], line["updates"]) for line in lines] == [
        ("train", 3), ("train", 6), ("train", 7), ("train", 7), ("valid", 7), ("train", 9),
    ]  # fmt: skip
    assert all(math.isfinite(line["loss"]) for line in lines)
    shown = EventAccumulator(str(tmp_path / "tensorboard" / "train")).Reload().Scalars("loss")
    assert [event.step for event in shown] == [3, 6, 7, 9]
    assert saved(tmp_path) == {"step-0", "step-7"}
    weights = load(tmp_path / "checkpoints" / "step-7").model
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_weights_that_are_no_numbers_are_never_saved(tmp_path):
    model = classifier()
    made = (
        builder(tmp_path).with_file_checkpointer().build(
            model,
            Optimizer(torch.optim.SGD, model),
            lambda updates: math.inf if updates == 13 else LR,
        )
    )  # fmt: skip
    with (
        pytest.raises(
            errors.NonFiniteError, match=r"^valid loss is nan after update 14 \(epoch 2\)"
        ),
        made,
    ):
        # spoilt by the last update, after the last training loss
        made.fit(train_loader(), measuring_loader())
    assert saved(tmp_path) == {"step-0", "step-7"}


@pytest.mark.parametrize(
    "error", [RuntimeError("a batch is broken"), KeyboardInterrupt()], ids=["error", "interrupt"]
)
def test_an_exception_stops_the_renderer_and_leaves_checkpoints_whole(tmp_path, error):
    shown, model = Shown(), classifier()
    made = builder(tmp_path).with_file_checkpointer().renderer(shown)
    made = made.build(model, Optimizer(torch.optim.Adam, model), LR)
    with pytest.raises(type(error)) as raised, made:
        made.fit(Failing(train_loader(), error), measuring_loader())
    assert raised.value is error
    assert shown.calls == ["start", "epoch 1", "stop"]
    assert not (tmp_path / "summary.json").exists()
    assert saved(tmp_path) == {"step-0", "step-7"}
    assert same(
        load(tmp_path / "checkpoints" / "step-7").model,
        fitted(tmp_path, num_epochs=1).model.state_dict(),
    )


def test_a_failed_checkpoint_write_is_logged_and_training_continues(tmp_path, caplog):
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    shown, model = Shown(), classifier()
    made = (
        builder(tmp_path)
        .hosted(NoHost())  # a claim would refuse the file
        .with_file_checkpointer()
        .renderer(shown)
        .build(model, Optimizer(torch.optim.Adam, model), LR)
    )
    made.fit(train_loader(), measuring_loader())
    assert made.position.epoch == 2
    assert shown.calls[-2:] == ["stop", "show"]
    warning, *_, last = [
        record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")
    ]
    assert f"step-0 COULD NOT BE WRITTEN in {tmp_path / 'checkpoints'} (Not a directory)" in warning
    assert "not written, and lost when this process ends: step-14" in last


def test_every_submodule_has_its_own_mode_back_after_measuring(tmp_path):
    model = classifier()
    model.network.features.eval()  # a frozen part
    before = {name: module.training for name, module in model.named_modules()}
    during = []

    class Watched(Loss):
        def __call__(self, item):
            modes = {module.training for module in model.modules()}
            during.append((modes, torch.is_inference_mode_enabled(), item.output.requires_grad))
            return super().__call__(item)

    made = LearnerBuilder(tmp_path).metric_valid_numeric(Watched()).with_writers()
    made = made.build(model, Optimizer(torch.optim.Adam, model), LR)
    made.evaluator.validate({"valid": measuring_loader()})
    assert during == [({False}, True, False)] * 3
    assert {name: module.training for name, module in model.named_modules()} == before
    with pytest.raises(RuntimeError, match="a batch is broken"):
        failing = Failing(measuring_loader(), RuntimeError("a batch is broken"), in_epoch=0)
        made.evaluator.validate({"valid": failing})
    assert {name: module.training for name, module in model.named_modules()} == before


def test_fit_gives_back_the_trained_model(tmp_path):
    made = learner(tmp_path, num_epochs=1)
    assert made.fit(train_loader(), measuring_loader()) is made.model


def test_the_renderer_sees_every_epoch_and_the_summary(tmp_path):
    shown, model = Shown(), classifier()
    made = builder(tmp_path).renderer(shown).build(model, Optimizer(torch.optim.Adam, model), LR)
    made.fit(train_loader(), measuring_loader())
    assert shown.calls == ["start", "epoch 1", "epoch 2", "stop", "show"]


def test_every_epoch_has_a_checkpoint_and_the_last_is_the_final_state(tmp_path):
    model = classifier()
    made = builder(tmp_path, num_epochs=3).with_file_checkpointer(KeepLast(3))
    with made.build(model, Optimizer(torch.optim.Adam, model), LR) as made:
        made.fit(train_loader(), measuring_loader())
        at_return = saved(tmp_path)
    # all of them on the disk when fit comes back
    assert at_return == {"step-7", "step-14", "step-21"}
    last, state = load(tmp_path / "checkpoints" / "step-21"), made.state()
    assert same(last.model, state.model)
    assert same(last.optimizer, state.optimizer)
    kept = last.state.pop("checkpoints")
    assert [(value["name"], *value["values"]) for value in kept] == [
        ("step-7", "train", "valid"), ("step-14", "train", "valid"), ("step-21", "train", "valid"),
    ]  # fmt: skip
    result = without_time(last.state)
    assert (
        result == without_time(state.state) == {
            "updates": 21,
            "epoch": 3,
            "batch": 0,
            "batch_size": 8,
            "seed": SEED,
            "format": 2,
            "metric_log": {
                "tally": {"metrics": ["loss", "accuracy"], "window": [], "epoch": [None, None]},
                "window": [0, 0],
                "history": made.metric_log.history.state_dict(),
                "latest": made.metric_log.latest,
                "writers": {},
            },
            "random": result["random"],
            "owners": {
                "base": {
                    "optimizer": "torch.optim.Adam",
                    "parameters": [*dict(model.named_parameters())],
                }
            },
            "frozen": [],
            "stateless": [],
            "schedules": [],
            "averages": {},
            "early_stopping": {},
            "parts": {
                "nonfinite": {"skipped": 0, "precision": {"scale": 1.0, "updates_since": 0}},
                "validation": {"last_update": 21},
            },
        }
    )  # fmt: skip


def test_leaving_the_learner_closes_its_writers(tmp_path):
    kept = Kept()
    with learner(tmp_path, writers=[kept]):
        assert not hasattr(kept, "is_closed")
    assert kept.is_closed


class Sampling(Classifier):
    """Shows a random number and whether it was asked in training mode."""

    def samples(self):
        return {
            "drawn": f"{torch.rand(())} {self.training}",
            "image": torch.zeros(1, 2, 2, dtype=torch.uint8),
        }


def test_samples_are_shown_after_each_validation_and_disturb_nothing(tmp_path):
    kept = Kept()
    with_samples = Sampling(classifier().network)
    sampled = fitted(tmp_path / "a", model=with_samples, writers=[kept])
    plain = fitted(tmp_path / "b")

    shown = [point for point in kept if point.texts]
    assert [(point.split, point.updates, point.epoch) for point in shown] == [
        ("valid", 7, 1),
        ("valid", 14, 2),
    ]
    assert shown[0].texts == shown[1].texts  # from one stream, in evaluation mode
    assert shown[0].texts["drawn"].endswith("False") and shown[0].images.keys() == {"image"}
    assert same(sampled.model.state_dict(), plain.model.state_dict())


class Slow:
    """A loader that takes a while over every batch."""

    def __init__(self, loader, seconds):
        self.loader, self.seconds = loader, seconds

    def __len__(self):
        return len(self.loader)

    @property
    def num_items(self):
        return self.loader.num_items

    def epoch(self, epoch):
        for batch in self.loader.epoch(epoch):
            time.sleep(self.seconds)
            yield batch


def test_the_share_of_time_that_goes_into_waiting_for_data_is_logged(tmp_path):
    kept = Kept()
    fitted(tmp_path, train=Slow(train_loader(), 0.05), writers=[kept], log_every=7)
    windows = [point.values for point in kept if point.split == "train" and not point.whole_epoch]

    for values in windows:
        assert values["time/step"] >= 0.05
        assert 0.05 / values["time/step"] <= values["time/data"] <= 1
        assert values["time/samples_per_second"] == pytest.approx(53 / 7 / values["time/step"])

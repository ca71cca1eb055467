"""Options of an update: micro-batches, several optimizers, clipping, SAM, averages,
precision; beside loops by hand.
"""

import json
import math

import pytest
import torch
from kept_points import Kept
from small_digits import (
    lengthen, BATCH, BATCHES, DIGITS, LR, SEED, TRAIN, VALID, builder, classifier, same,
    two_optimizers,
)  # fmt: skip
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.nn import functional

from andiron import data, errors, randomness
from andiron.checkpoint import KeepLast, load
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import Ema, Optimizer, Swa
from andiron.schedules import Linear, Plateau


def train_loader(batch_size=BATCH):
    return data.DataLoader(TRAIN, DIGITS.batcher, batch_size=batch_size, shuffle_seed=3)


def valid_loader():
    return data.DataLoader(VALID, DIGITS.batcher, batch_size=7)


def fit(made):
    return made.fit(train_loader(), valid_loader())


def test_micro_batches_equal_a_large_batch_to_rounding_in_short_groups_too(tmp_path):
    small, large, kept = classifier(dropout=0.0), classifier(dropout=0.0), Kept()
    schedule = Linear(0.05, 0.0, 4)
    accumulating = (
        builder(tmp_path, kept)
        .options(grads_accumulation=4, clip=0.5)
        .build(small, Optimizer(torch.optim.SGD, small), schedule)
    )
    fit(accumulating)
    whole = (
        builder(tmp_path)
        .options(clip=0.5)
        .build(large, Optimizer(torch.optim.SGD, large), schedule)
    )
    whole.fit(train_loader(batch_size=4 * BATCH), valid_loader())

    assert accumulating.updates == whole.updates == 4  # 7 batches an epoch: 4 and 3
    for name, tensor in large.state_dict().items():
        # float32: sums of 32 samples in another order, four updates of at most 0.05 * 0.5
        torch.testing.assert_close(small.state_dict()[name], tensor, rtol=0, atol=4 * 64 * 2**-24)
    assert not same(small.state_dict(), classifier().state_dict())
    rates = {point.updates: point.values["lr/base"] for point in kept if "lr/base" in point.values}
    # a schedule advances once an update
    assert rates == {2: schedule(1), 3: schedule(2), 4: schedule(3)}


def test_micro_batches_of_one_update_draw_dropout_apart(tmp_path):
    model = classifier()
    accumulating = builder(tmp_path).options(grads_accumulation=2)
    made = accumulating.build(model, Optimizer(torch.optim.Adam, model), LR)
    batch = next(train_loader().epoch(0))
    _, (one, other) = made.updater.gradients([batch, batch], made.position)
    assert not torch.equal(one.output, other.output)


def test_updates_are_counted_once_for_all_optimizers_also_in_tensorboard(tmp_path):
    model = classifier()
    made = (
        LearnerBuilder(tmp_path).metric_train_numeric(Loss()).metric_valid_numeric(
            Loss()
        ).options(num_epochs=2, log_every=3).build(model, two_optimizers(model), LR)
    )  # fmt: skip
    with made:
        fit(made)
    assert made.updates == 2 * BATCHES
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    windows = [line for line in lines if line["split"] == "train" and line["over"] == "window"]
    assert [line["updates"] for line in windows] == [3, 6, 7, 9, 12, 14]
    events = EventAccumulator(str(tmp_path / "tensorboard" / "train")).Reload()
    for tag in ("loss", "lr/matrices", "lr/rest", "grad_norm/matrices", "update_ratio/rest"):
        assert [event.step for event in events.Scalars(tag)] == [3, 6, 7, 9, 12, 14]
    assert all(line["lr/matrices"] == 2 * LR and line["lr/rest"] == LR for line in windows)


def test_histograms_of_the_parameters_whose_names_have_a_pattern(tmp_path):
    kept, model = Kept(), classifier()
    made = builder(tmp_path, kept, num_epochs=1).options(histograms=r"weight$")
    fit(made.build(model, two_optimizers(model), LR))

    weights = {name for name, _ in model.named_parameters() if name.endswith("weight")}
    drawn = {f"{kind}/{name}" for kind in ("weights", "gradients") for name in weights}
    assert weights and {*kept[0].histograms} == drawn
    for pattern, words in (("wieght", "matches no parameter name"), ("(", "not a valid regex")):
        with pytest.raises(errors.ConfigError, match=words):
            made.options(histograms=pattern).build(model, two_optimizers(model), LR)


def test_logged_norms_are_of_gradients_before_clipping_and_of_updates(tmp_path):
    model, kept, seen = classifier(), Kept(), {}
    made = (
        builder(tmp_path, kept, num_epochs=1)
        .options(clip=0.01, histograms=True)
        .build(model, two_optimizers(model), LR)
    )
    step = made.optimizer.step

    def watched(rates, model, clipped, closure, **more):
        with torch.enable_grad():
            raw, _ = made.updater.gradients(batches[made.updates], made.position)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        stepped = step(rates, model, clipped, closure, **more)
        seen[made.updates + 1] = (
            raw, before,
            {name: p.detach().clone() for name, p in model.named_parameters()},
        )  # fmt: skip
        return stepped

    made.optimizer.step = watched
    batches = [[batch] for batch in train_loader().epoch(0)]
    fit(made)
    for point in (point for point in kept if "lr/rest" in point.values):
        raw, before, after = seen[point.updates]
        for group in ("matrices", "rest"):
            names = made.optimizer.groups[group].parameters
            norm = math.hypot(*(raw[name].norm() for name in names))
            moved = math.hypot(*((after[name] - before[name]).norm() for name in names))
            weights = math.hypot(*(before[name].norm() for name in names))
            # float32 norms of tensors
            assert point.values[f"grad_norm/{group}"] == pytest.approx(norm, rel=1e-6)
            assert point.values[f"update_ratio/{group}"] == pytest.approx(moved / weights, rel=1e-5)
        assert same({n: point.histograms[f"gradients/{n}"] for n in raw}, dict(raw))
        assert {f"weights/{name}" for name in after} <= set(point.histograms)


def test_sam_takes_gradients_at_the_worst_weights_nearby_with_one_dropout(tmp_path):
    model, expected = classifier(), classifier()
    made = builder(tmp_path, num_epochs=1).options(sam=0.05)
    fit(made.build(model, Optimizer(torch.optim.SGD, model), LR))
    plain = torch.optim.SGD(expected.parameters(), lr=LR, fused=True)
    expected.train()
    for update, batch in enumerate(train_loader().epoch(0)):

        def loss(update=update, batch=batch):
            torch.manual_seed(randomness.derive(SEED, "update", update))
            return functional.cross_entropy(expected(batch.inputs), batch.targets)

        ascent = torch.autograd.grad(loss(), [*expected.parameters()])
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(ascent)))
        kept = [parameter.detach().clone() for parameter in expected.parameters()]
        with torch.no_grad():
            for parameter, gradient in zip(expected.parameters(), ascent, strict=True):
                parameter += gradient * (0.05 / (norm + 1e-12))
        plain.zero_grad()
        loss().backward()
        with torch.no_grad():
            for parameter, before in zip(expected.parameters(), kept, strict=True):
                parameter.copy_(before)
        plain.step()
    assert same(model.state_dict(), expected.state_dict())


def test_lbfgs_recomputes_loss_and_gradients_with_the_same_dropout(tmp_path):
    model, expected = classifier(), classifier()
    optimizer = Optimizer(torch.optim.LBFGS, model, max_iter=3)
    fit(builder(tmp_path, num_epochs=1).build(model, optimizer, 0.05))
    plain = torch.optim.LBFGS(expected.parameters(), lr=0.05, max_iter=3)
    expected.train()
    for update, batch in enumerate(train_loader().epoch(0)):

        def closure(update=update, batch=batch):
            torch.manual_seed(randomness.derive(SEED, "update", update))
            plain.zero_grad()
            loss = functional.cross_entropy(expected(batch.inputs), batch.targets)
            loss.backward()
            return loss

        plain.step(closure)
    assert same(model.state_dict(), expected.state_dict())


@pytest.mark.parametrize("name, dtype", [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_mixed_precision_equals_torchs_autocast_and_scaler_bit_for_bit(tmp_path, name, dtype):
    model, expected = classifier(), classifier()
    made = (
        builder(tmp_path)
        .options(precision=name)
        .build(model, Optimizer(torch.optim.Adam, model), LR)
    )
    fit(made)
    plain = torch.optim.Adam(expected.parameters(), lr=LR, fused=True)
    scaler = torch.amp.GradScaler("cpu", enabled=name == "fp16")
    expected.train()
    update = 0
    for epoch in range(2):
        for batch in train_loader().epoch(epoch):
            torch.manual_seed(randomness.derive(SEED, "update", update))
            with torch.autocast("cpu", dtype):
                loss = functional.cross_entropy(expected(batch.inputs), batch.targets)
            plain.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(plain)
            scaler.step(plain)
            before = scaler.get_scale()
            scaler.update()
            update += scaler.get_scale() == before  # what overflowed is no update
    assert same(model.state_dict(), expected.state_dict())
    assert (made.updates, made.updater.nonfinite.skipped) == (update, 14 - update)
    assert (
        made.updater.precision.scale == scaler.get_scale()
        and made.updater.nonfinite.skipped == (name == "fp16")
    )
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


def test_both_views_of_the_weights_are_measured_saved_and_exported(tmp_path):
    model, kept, weights = classifier(), Kept(), []
    made = (
        builder(tmp_path, kept)
        .with_file_checkpointer(KeepLast(2))
        .averages(ema=Ema(0.8), swa=Swa(start=10, every=2))
        .build(model, Optimizer(torch.optim.Adam, model), LR)
    )
    step = made.optimizer.optimizers[0].step
    weights.append({name: tensor.double() for name, tensor in model.state_dict().items()})

    def recorded(*arguments, **more):
        stepped = step(*arguments, **more)
        weights.append({name: tensor.double() for name, tensor in stepped.state_dict().items()})
        return stepped

    made.optimizer.optimizers[0].step = recorded
    with made:
        fit(made)

    closed = {
        name: 0.8**14 * first + sum(0.2 * 0.8 ** (14 - t) * weights[t][name] for t in range(1, 15))
        for name, first in weights[0].items()
    }
    exports = made.exports()
    assert set(exports) == {"model", "model-ema", "model-swa"}
    for name, tensor in exports["model-ema"].items():
        # fourteen interpolations in float32, each rounding values below 1
        torch.testing.assert_close(tensor.double(), closed[name], rtol=0, atol=14 * 2 * 2**-24)
        mean = (weights[10][name] + weights[12][name] + weights[14][name]) / 3
        torch.testing.assert_close(
            exports["model-swa"][name].double(), mean, rtol=0, atol=6 * 2**-24
        )
    assert same(exports["model"], {name: tensor.float() for name, tensor in weights[-1].items()})

    by_hand = classifier()
    by_hand.load_state_dict(exports["model-ema"])
    by_hand.eval()
    with torch.inference_mode():
        ((inputs, targets),) = data.DataLoader(VALID, DIGITS.batcher, batch_size=17)
        expected = functional.cross_entropy(by_hand(inputs), targets).item()
    last = {point.split: point.values for point in kept if point.whole_epoch}
    # a mean over 17 in float32, by other batches
    assert last["valid-ema"]["loss"] == pytest.approx(expected, rel=1e-6)
    assert last["valid"]["loss"] != last["valid-ema"]["loss"]
    # nothing had entered it after the first
    assert [point.epoch for point in kept if point.split == "valid-swa"] == [2]
    saved = load(tmp_path / "checkpoints" / "step-14")
    assert same(saved.averages["ema"], exports["model-ema"]) and same(
        saved.averages["swa"], exports["model-swa"]
    )


def test_weights_loaded_after_the_build_are_where_an_average_begins(tmp_path):
    model, other = classifier(), classifier()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    made = builder(tmp_path, num_epochs=1).averages(ema=Ema(0.8))
    made = made.build(model, Optimizer(torch.optim.Adam, model), LR)
    model.load_state_dict(other.state_dict())
    expected = {name: tensor.double() for name, tensor in other.state_dict().items()}
    for step in made.steps(train_loader(), valid_loader()):
        if step.kind == "update":
            for name, tensor in model.state_dict().items():
                expected[name] = 0.8 * expected[name] + 0.2 * tensor.double()
    for name, tensor in made.averages["ema"].state_dict().items():
        # seven interpolations in float32, each rounding values below 2
        torch.testing.assert_close(tensor.double(), expected[name], rtol=0, atol=7 * 2 * 2**-23)


def test_a_plateau_falls_when_the_validation_loss_does_not(tmp_path):
    model, kept = classifier(), Kept()
    schedule = Plateau(LR, patience=0, threshold=0.9, factor=0.5)
    fit(
        builder(tmp_path, kept, num_epochs=4).build(
            model, Optimizer(torch.optim.SGD, model), schedule
        )
    )
    rates = {point.epoch: point.values["lr/base"] for point in kept if "lr/base" in point.values}
    assert rates == {1: LR, 2: LR, 3: LR / 2, 4: LR / 4}


def test_schedule_free_is_measured_saved_and_given_back_at_its_average(tmp_path):
    schedulefree = pytest.importorskip("schedulefree")
    model, expected, kept = classifier(), classifier(), Kept()
    made = (
        builder(tmp_path, kept)
        .with_file_checkpointer(KeepLast(1))
        .build(model, Optimizer(schedulefree.AdamWScheduleFree, model), LR)
    )
    with made:
        trained = fit(made)
    plain = schedulefree.AdamWScheduleFree(expected.parameters(), lr=LR)
    plain.train()
    expected.train()
    for update, batch in enumerate([*train_loader().epoch(0), *train_loader().epoch(1)]):
        torch.manual_seed(randomness.derive(SEED, "update", update))
        plain.zero_grad()
        functional.cross_entropy(expected(batch.inputs), batch.targets).backward()
        plain.step()
    stepped = {name: tensor.clone() for name, tensor in expected.state_dict().items()}
    plain.eval()
    assert same(trained.state_dict(), expected.state_dict()) and not same(
        stepped, expected.state_dict()
    )
    assert same(made.exports()["model"], expected.state_dict())
    saved = load(tmp_path / "checkpoints" / "step-14")
    assert same(saved.model, expected.state_dict())
    assert same({name: saved.optimizer[f"{name}/training_weights"] for name in stepped}, stepped)

    longer, again = classifier(), classifier()
    straight = builder(tmp_path, num_epochs=3).build(
        longer, Optimizer(schedulefree.AdamWScheduleFree, longer), LR
    )
    fit(straight)
    going_on = builder(tmp_path, num_epochs=3).build(
        again, Optimizer(schedulefree.AdamWScheduleFree, again), LR
    )
    going_on.load(saved)
    fit(going_on)
    assert same(longer.state_dict(), again.state_dict())

    back = classifier()
    returning = builder(tmp_path, num_epochs=2).build(
        back, Optimizer(schedulefree.AdamWScheduleFree, back), LR
    )
    fit(returning)
    lengthen(returning, 3)  # a learner that has come back can go on too
    fit(returning)
    assert same(longer.state_dict(), back.state_dict())


@pytest.mark.parametrize("policy, expected", [("stop", 1), ("skip", 1), ("ignore", 0)])
def test_an_update_reads_at_most_one_value_from_the_device(tmp_path, host_reads, policy, expected):
    model, train = classifier(), train_loader()
    chosen = builder(tmp_path).options(log_every=100, clip=1.0, on_nonfinite=policy)
    chosen.averages(ema=Ema(0.9)).options(grads_accumulation=2)
    numbers = []
    with chosen.build(model, Optimizer(torch.optim.AdamW, model), LR) as made:
        with made.training(train):
            for batches in made.batches_of_epoch(train):
                with host_reads() as reads:
                    made.update(batches, train)
                numbers.append(reads.number)
    *between, _ = numbers  # the last is a log point
    assert between == [expected] * (len(numbers) - 1)

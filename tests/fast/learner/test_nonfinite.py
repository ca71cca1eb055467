"""NaN and infinity never reach the weights: each policy, for each cause."""

import math

import pytest
import torch
from kept_points import Kept
from tensor_bits import copies, same
from torch import nn
from torch.nn import functional

from andiron import data, errors, randomness
from andiron.checkpoint import load
from andiron.data import ArrayDataset
from andiron.gradients import Gradients
from andiron.learner import LearnerBuilder, nonfinite
from andiron.metrics import Loss
from andiron.optim import GradientsAccumulator, Optimizer
from andiron.protocols import TrainOutput
from andiron.tasks import Classifier
from refusals import message_of

SIZE, BATCH, SEED, LR = 29, 6, 5, 0.05
BAD_SAMPLE = 11


class Plain:
    """A batcher for samples that are floats already."""

    def __call__(self, raw, device):
        return data.Batch(raw.inputs.to(device), raw.targets.to(device))


def samples(*, bad=None):
    stream = torch.Generator().manual_seed(0)
    inputs, targets = (
        torch.randn(SIZE, 4, generator=stream),
        torch.randint(3, (SIZE,), generator=stream),
    )
    if bad is not None:
        inputs[BAD_SAMPLE, 2] = bad
    return ArrayDataset(inputs, targets)


def loader(**options):
    return data.DataLoader(samples(**options), Plain(), batch_size=BATCH, shuffle_seed=1)


def classifier():
    torch.manual_seed(2)
    return Classifier(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3)))


def learner(folder, model, *, policy="stop", writers=(), precision="fp32", accumulate=1):
    return (
        LearnerBuilder(folder)
        .metric_train_numeric(Loss())
        .metric_valid_numeric(Loss())
        .with_writers(*writers)
        .options(
            num_epochs=1,
            log_every=2,
            seed=SEED,
            on_nonfinite=policy,
            precision=precision,
            grads_accumulation=accumulate,
        )
        .build(model, Optimizer(torch.optim.Adam, model), LR)
    )


def by_hand(batches, *, without=()):
    """The model after a plain loop that leaves some batches out; the stream of an update is that of
    its number.
    """
    model, update = classifier(), 0
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, fused=True)
    model.train()
    for number, batch in enumerate(batches):
        if number not in without:
            torch.manual_seed(randomness.derive(SEED, "update", update))
            optimizer.zero_grad()
            functional.cross_entropy(model(batch.inputs), batch.targets).backward()
            optimizer.step()
            update += 1
    return model


def where_bad():
    """The batch that the bad sample is in, and the samples of that batch."""
    plan = loader()
    (number,) = [number for number in range(len(plan)) if BAD_SAMPLE in plan.indices(0, number)]
    return number, plan.indices(0, number)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_nan_sample_is_named_and_stops_the_run_before_the_weights_change(tmp_path, bad):
    number, indices = where_bad()
    model = classifier()
    made = learner(tmp_path, model)
    with pytest.raises(errors.NonFiniteError) as stopped:
        made.fit(loader(bad=bad), loader())
    folder = tmp_path / "nonfinite" / f"update-{number + 1}"
    message = str(stopped.value)
    assert message.startswith(
        f"update {number + 1} (epoch 1, batch {number + 1}, samples "
        f"{', '.join(map(str, indices))}) was not applied: "
        f"sample {BAD_SAMPLE} has NaN or infinity; the loss is "
    )
    assert "; the first parameter with a gradient of nan or inf is 'network.0.weight' (" in message
    assert message.endswith(
        ". The weights are unchanged. "
        f"`learner.load(andiron.checkpoint.load(Path({str(folder)!r})))` before `fit`, in another "
        "run_dir, runs the step again; "
        "lower lr or clip the gradients, or skip such updates with on_nonfinite=skip"
    )
    assert made.updates == number and number > 0
    assert same(model.state_dict(), by_hand([*loader().epoch(0)][:number]).state_dict())
    left = load(folder)
    assert same(left.model, copies(model.state_dict())) and same(
        left.optimizer, made.optimizer.state_dict()
    )
    assert left.state["step"]["samples"] == [indices] and left.state["updates"] == number


def test_a_learner_that_loads_the_saved_step_repeats_it(tmp_path):
    def stopped(folder, saved=None):
        made = learner(folder, classifier(), accumulate=2)
        if saved is not None:
            made.load(load(saved))
        with pytest.raises(errors.NonFiniteError) as error:
            made.fit(loader(bad=math.nan), loader())
        [step] = (folder / "nonfinite").iterdir()
        return step, str(error.value).partition(" The weights")[0]

    first, message = stopped(tmp_path / "first")
    again, repeated = stopped(tmp_path / "again", first)
    assert repeated == message and load(again).state["step"] == load(first).state["step"]


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_nan_weights_end_the_run_and_are_distinguished_from_a_nan_batch(tmp_path, policy):
    model = classifier()
    with torch.no_grad():
        model.network[3].bias[1] = math.nan
    made = learner(tmp_path, model, policy=policy)
    message = message_of(errors.NonFiniteError, made.fit, loader(), loader())
    assert "parameter 'network.3.bias' itself has NaN or infinity. The weights are" in message


class Odd(Classifier):
    """Makes one gradient, or only the loss, infinite at its third step."""

    def __init__(self, network, place):
        super().__init__(network)
        self.place, self.steps = place, 0

    def train_step(self, batch):
        output = super().train_step(batch)
        self.steps += 1
        if self.steps == 3:
            if self.place == "loss":
                output.gradients.loss = torch.tensor(math.inf)
            else:
                output.gradients[self.place].view(-1)[0] = math.inf
        return TrainOutput(output.gradients, output.item, output.weight)


@pytest.mark.parametrize("place, words", [
    ("loss", "weights and batch are finite; the loss is inf. The weights"),
    ("network.3.bias",
     "the first parameter with a gradient of nan or inf is 'network.3.bias' [(]1 of 4[)]"),
])  # fmt: skip
def test_one_gradient_or_the_loss_alone_is_enough(tmp_path, place, words):
    model = Odd(classifier().network, place)
    made = learner(tmp_path, model)
    with pytest.raises(errors.NonFiniteError, match=words):
        made.fit(loader(), loader())
    expected = by_hand([*loader().epoch(0)][:2])
    assert same(model.state_dict(), expected.state_dict()) and made.updates == 2


def test_skip_drops_and_counts_the_update_as_if_the_batch_did_not_exist(tmp_path):
    number, _ = where_bad()
    model, kept = classifier(), Kept()
    made = learner(tmp_path, model, policy="skip", writers=[kept])
    made.fit(loader(bad=math.nan), loader())
    batches = [*loader().epoch(0)]
    assert same(model.state_dict(), by_hand(batches, without=[number]).state_dict())
    assert (made.updates, made.updater.nonfinite.skipped) == (len(batches) - 1, 1)
    windows = [point for point in kept if point.split == "train"]
    assert all(math.isfinite(point.values["loss"]) for point in windows)  # the batch is in no mean
    assert number == 1  # the second batch: before the first log point
    assert [point.values["skipped_updates"] for point in windows if not point.whole_epoch] == [
        1.0, 1.0,
    ]  # fmt: skip
    assert [point.updates for point in windows if not point.whole_epoch] == [2, 4]
    assert not (tmp_path / "nonfinite").exists()


def test_ignore_looks_at_nothing(tmp_path):
    model = classifier()
    made = learner(tmp_path, model, policy="ignore")
    made.fit(loader(bad=math.nan), loader())
    assert made.updates == len(loader()) and made.updater.nonfinite.skipped == 0
    assert any(tensor.isnan().any() for tensor in model.state_dict().values())


def test_a_bad_sample_among_micro_batches_is_found_in_its_own(tmp_path):
    number, _ = where_bad()
    made = learner(tmp_path, classifier(), accumulate=3)
    message = message_of(errors.NonFiniteError, made.fit, loader(bad=math.nan), loader())
    first = number // 3 * 3 + 1
    batches = ", ".join(str(first + value) for value in range(min(3, len(loader()) - first + 1)))
    assert f"(epoch 1, batch {batches}, samples " in message
    assert f": sample {BAD_SAMPLE} has NaN" in message


@pytest.mark.parametrize("bad", [False, True])
def test_nan_found_while_micro_batches_were_divided_is_not_looked_for_again(bad):
    accumulator = GradientsAccumulator()
    for value in (1.0, math.inf if bad else 2.0):
        accumulator.add(Gradients({"weight": torch.full((2,), value)}, nn.Linear(2, 1)), 4)
    mean = accumulator.mean()
    mean["weight"] = torch.full((2,), math.nan)  # which a second look would find
    assert nonfinite.Nonfinite().passes(mean) is not bad


@pytest.mark.parametrize("policy", ["stop", "skip", "ignore"])
def test_an_fp16_overflow_halves_the_scale_and_is_skipped_by_any_policy(tmp_path, caplog, policy):
    made = learner(tmp_path, classifier(), policy=policy, precision="fp16")
    # gradients of 1e-4 overflow with it, the loss does not
    made.updater.precision.scale = 2.0**30
    with caplog.at_level("WARNING", "andiron"):
        made.fit(loader(), loader())
    skipped = made.updater.nonfinite.skipped
    assert skipped > 0 and made.updater.precision.scale == 2.0**30 / 2**skipped
    assert made.updates == len(loader()) - skipped
    words = f"skipped: gradients overflowed in fp16; the loss scale is now {2.0**29:g}"
    assert words in caplog.messages[0]


def test_a_nan_loss_is_no_overflow_in_fp16_either(tmp_path):
    made = learner(tmp_path, classifier(), precision="fp16")
    message = message_of(errors.NonFiniteError, made.fit, loader(bad=math.nan), loader())
    assert f"sample {BAD_SAMPLE} has NaN or infinity" in message


def test_the_scale_doubles_after_2000_finite_updates_and_is_saved():
    made = nonfinite.Nonfinite(precision=nonfinite.Precision("fp16"))
    for _ in range(1999):
        made.precision.updated()
    assert made.precision.scale == 2.0**16
    other = nonfinite.Nonfinite(precision=nonfinite.Precision("fp16"))
    other.load_state_dict(made.state_dict())
    other.precision.updated()
    assert other.precision.scale == 2.0**17
    assert other.readings() == {"loss_scale": 2.0**17}


def test_at_the_smallest_scale_it_is_no_overflow_any_more():
    precision = nonfinite.Precision("fp16")
    for _ in range(40):
        precision.overflowed()
    assert precision.scale == 1.0 and not precision.may_have_overflowed


def test_a_loader_that_does_not_tell_its_samples_leaves_their_places(tmp_path):
    class Silent:
        def __init__(self, inner):
            self.inner, self.num_items = inner, inner.num_items

        def __len__(self):
            return len(self.inner)

        def epoch(self, epoch):
            return self.inner.epoch(epoch)

    number, indices = where_bad()
    with pytest.raises(errors.NonFiniteError) as stopped:
        learner(tmp_path, classifier()).fit(Silent(loader(bad=math.nan)), loader())
    assert str(stopped.value).startswith(
        f"update {number + 1} (epoch 1, batch {number + 1}) was not applied: sample "
        f"{indices.index(BAD_SAMPLE)} of its batch has NaN"
    )


def test_a_step_that_cannot_be_saved_does_not_hide_what_ended_the_run(tmp_path):
    (tmp_path / "nonfinite").write_text("in the way")
    made = learner(tmp_path, classifier())
    message = message_of(errors.NonFiniteError, made.fit, loader(bad=math.nan), loader())
    assert f"sample {BAD_SAMPLE} has NaN or infinity" in message
    place = tmp_path / "nonfinite" / "update-2"
    assert f"The step could not be saved in {place} (File exists); lower lr" in message

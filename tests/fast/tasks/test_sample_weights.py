"""The weights of samples in the training loss."""

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.data import ArrayBatcher, ArrayDataset, Concatenated, DataLoader, RawBatch
from andiron.data.dataset import Batch, WeightedBatch
from andiron.optim import GradientsAccumulator
from andiron.tasks import (
    BinaryClassifier, BinaryCrossEntropy, Classifier, CrossEntropy, MeanSquaredError,
    MultiLabelClassifier, Regressor,
)  # fmt: skip
from refusals import message_of

DRAW = torch.Generator().manual_seed(0)
INPUTS = torch.randn(7, 4, generator=DRAW)
CLASSES = torch.tensor([0, 2, 1, 1, 0, 2, 2])
YES = torch.tensor([0, 1, 1, 0, 1, 0, 0])
REPEATS = torch.tensor([1, 3, 2, 1, 1, 2, 4])
TASKS = {
    "classes": (Classifier, CrossEntropy(), CLASSES, 3),
    "smoothed": (Classifier, CrossEntropy(label_smoothing=0.1), CLASSES, 3),
    "class weights": (Classifier, CrossEntropy([1.0, 2.0, 0.5]), CLASSES, 3),
    "ignored": (Classifier, CrossEntropy(ignored_index=1), CLASSES, 3),
    "torch's": (Classifier, nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5])), CLASSES, 3),
    "binary": (BinaryClassifier, BinaryCrossEntropy(2.0), YES, 1),
    "labels": (MultiLabelClassifier, BinaryCrossEntropy(), YES[:, None].repeat(1, 3), 3),
    "values": (Regressor, MeanSquaredError(), INPUTS[:, :2] * 2, 2),
    "huber": (Regressor, nn.HuberLoss(), INPUTS[:, :2] * 2, 2),
}


def task_of(name):
    kind, loss, targets, outputs = TASKS[name]
    torch.manual_seed(1)
    return kind(nn.Linear(4, outputs), loss), targets


@pytest.mark.parametrize("name", TASKS)
def test_a_weight_of_3_is_the_sample_three_times(name):
    task, targets = task_of(name)
    rows = torch.arange(7).repeat_interleave(REPEATS)
    expected = task.train_step(Batch(INPUTS[rows], targets[rows]))
    for scale in (1.0, 0.125):  # only ratios matter
        weights = REPEATS * scale
        result = task.train_step(WeightedBatch(INPUTS, targets, weights))
        assert float(result.item.loss) == pytest.approx(float(expected.item.loss), rel=1e-5)
        assert float(result.weight) == pytest.approx(float(expected.weight) * scale, rel=1e-6)
        for key, gradient in expected.gradients.items():  # sums in another order
            assert torch.allclose(result.gradients[key], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["classes", "class weights", "values"])
def test_micro_batches_have_the_gradients_of_the_whole_batch(name):
    task, targets = task_of(name)
    weights = REPEATS.float()
    whole = task.train_step(WeightedBatch(INPUTS, targets, weights)).gradients
    accumulator = GradientsAccumulator()
    for part in ([0, 1, 2, 3, 4], [5, 6]):
        batch = WeightedBatch(INPUTS[part], targets[part], weights[part])
        output = task.train_step(batch)
        accumulator.add(output.gradients, output.weight)
    for key, gradient in accumulator.mean().items():
        assert torch.allclose(gradient, whole[key], rtol=1e-4, atol=1e-6)


def test_validation_counts_every_sample_once():
    task, targets = task_of("classes")
    weighted = task.valid_step(WeightedBatch(INPUTS, targets, REPEATS.float()))
    plain = task.valid_step(Batch(INPUTS, targets))
    assert torch.equal(weighted.loss, plain.loss) and weighted.weight == plain.weight == 7
    task.train_step(WeightedBatch(INPUTS, targets, REPEATS.float()))
    assert torch.equal(task.train_step(Batch(INPUTS, targets)).item.loss, plain.loss)


def test_weights_stay_with_their_samples():
    weights = REPEATS.float()
    dataset = ArrayDataset(INPUTS, REPEATS, weights)
    together = Concatenated([dataset.subset([5, 0]), dataset])
    for value in (dataset, dataset.subset([3, 1, 6, 2]), together):
        loader = DataLoader(value, ArrayBatcher(), batch_size=2, shuffle_seed=3)
        for batch in loader.epoch(1):
            assert torch.equal(batch.weights, batch.targets.float())


def test_an_augmentation_that_loses_weights_is_refused():
    class Mixed:
        name = "mixed"

        def __call__(self, raw, draws):
            return RawBatch(raw.inputs, raw.targets + 0)

    dataset = ArrayDataset(INPUTS, CLASSES, REPEATS.float())
    loader = DataLoader(dataset, ArrayBatcher(), shuffle_seed=0, augmentations=[Mixed()])
    message = message_of(errors.DataError, next, loader.epoch(0))
    assert "mixed changes targets, and samples with weights" in message


@pytest.mark.parametrize("kind", [CrossEntropy, nn.CrossEntropyLoss])
@pytest.mark.parametrize("combination", range(16))
def test_weights_smoothing_ignored_index_and_sample_weights_combine(combination, kind):
    has_weights, is_smooth, has_ignored, is_weighted = (combination >> bit & 1 for bit in range(4))
    weights = [1.0, 2.0, 0.5] if has_weights else None
    smoothing, ignored = 0.1 * is_smooth, 1 if has_ignored else -100
    tensor = None if weights is None else torch.tensor(weights)
    if kind is CrossEntropy:
        loss = CrossEntropy(weights, smoothing, ignored_index=ignored if has_ignored else None)
    else:
        loss = nn.CrossEntropyLoss(tensor, label_smoothing=smoothing, ignore_index=ignored)
    torch.manual_seed(1)
    task = Classifier(nn.Linear(4, 3), loss)
    counts = torch.arange(7) % 3 / 2 if is_weighted else torch.ones(7)
    batch = WeightedBatch(INPUTS, CLASSES, counts) if is_weighted else Batch(INPUTS, CLASSES)
    output = task.train_step(batch)

    losses = nn.functional.cross_entropy(
        task.network(INPUTS), CLASSES, tensor, reduction="none", label_smoothing=smoothing,
        ignore_index=ignored,
    )  # fmt: skip
    of_target = torch.ones(7) if tensor is None else tensor[CLASSES]
    total = (counts * of_target * (CLASSES != ignored)).sum()
    expected = (counts * losses).sum() / total
    expected.backward()
    torch.testing.assert_close(output.item.loss, expected.detach())
    torch.testing.assert_close(torch.as_tensor(output.weight).float(), total)
    torch.testing.assert_close(output.gradients["network.weight"], task.network.weight.grad)


def stepped(output, targets):
    """The absolute difference, as a loss with decisions by value is written."""
    total = output.new_zeros(())
    for row, target in zip(output, targets, strict=True):
        off = (row - target).sum()
        total = total + (off if off > 0 else -off)
    return total / len(output)


def masked(output, targets):
    return torch.masked_select((output - targets).abs(), targets > -9).mean()


@pytest.mark.parametrize("loss", [stepped, masked])
def test_a_loss_that_vmap_cannot_take_is_computed_sample_by_sample(loss):
    torch.manual_seed(1)
    task, weights = Regressor(nn.Linear(4, 1), loss), torch.arange(7) / 3
    targets = INPUTS[:, :1]
    result = task.train_step(WeightedBatch(INPUTS, targets, weights)).item
    errors_of_samples = (task.network(INPUTS) - targets).abs()[:, 0]
    torch.testing.assert_close(result.loss, ((weights * errors_of_samples).sum() / 7).detach())


def test_a_sample_of_weight_0_may_have_a_loss_of_nan():
    torch.manual_seed(1)
    task, targets = Regressor(nn.Linear(4, 1)), INPUTS[:, :1].clone()
    targets[2] = torch.nan
    weights = torch.ones(7).index_fill(0, torch.tensor(2), 0)
    output = task.train_step(WeightedBatch(INPUTS, targets, weights))
    kept = weights > 0
    expected = task.train_step(Batch(INPUTS[kept], targets[kept]))
    torch.testing.assert_close(output.item.loss, expected.item.loss)
    for name, gradient in expected.gradients.items():
        torch.testing.assert_close(output.gradients[name], gradient)

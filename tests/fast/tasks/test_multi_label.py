"""Any number of labels a sample, against a plain loop."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import errors, inference, outputs
from andiron.data.dataset import Batch
from andiron.optim import GradientsAccumulator
from andiron.tasks import BinaryClassifier, BinaryCrossEntropy, CrossEntropy, MultiLabelClassifier
from refusals import message_of

SIZES = (5, 1, 7, 3, 2, 8, 4, 1)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)).eval()


def batch(size=31):
    stream = torch.Generator().manual_seed(1)
    return Batch(
        torch.randn(size, 6, generator=stream), torch.randint(2, (size, 3), generator=stream)
    )


def test_train_step_gives_the_gradients_and_values_of_a_plain_loop():
    model, plain = MultiLabelClassifier(network()), network()
    logits = plain(batch(7).inputs)
    expected = functional.binary_cross_entropy_with_logits(logits, batch(7).targets.float())
    expected.backward()
    output = model.train_step(batch(7))
    assert torch.equal(output.item.loss, expected) and torch.equal(output.item.output, logits)
    assert output.weight == 21  # labels, which the loss is a mean over
    for name, parameter in plain.named_parameters():
        assert torch.equal(output.gradients[f"network.{name}"], parameter.grad)
    assert [name for name, p in model.named_parameters() if p.grad is not None] == []
    with inference.valid(model):
        assert torch.equal(model.valid_step(batch(7)).loss, expected)
    assert list(model.state_dict()) == [f"network.{name}" for name in plain.state_dict()]


@pytest.mark.parametrize("ignored", [outputs.IGNORED, 2])
@pytest.mark.parametrize("is_float", [False, True])
def test_single_labels_may_be_ignored_and_eight_uneven_batches_equal_one(ignored, is_float):
    inputs, targets = batch()
    targets = targets.masked_fill(torch.arange(93).view(31, 3) % 4 == 1, ignored)
    targets = targets.float() if is_float else targets
    loss, accumulator = BinaryCrossEntropy([1, 2, 3], ignored_index=ignored), GradientsAccumulator()
    model = MultiLabelClassifier(network(), loss)
    for x, y in zip(inputs.split(SIZES), targets.split(SIZES), strict=True):
        output = model.train_step(Batch(x, y))
        accumulator.add(output.gradients, output.weight)
    actual, whole = accumulator.mean(), model.train_step(Batch(inputs, targets))
    assert torch.equal(whole.item.targets == outputs.IGNORED, targets == ignored)
    assert whole.weight == outputs.num_targets(whole.item) == (targets != ignored).sum()
    for name, gradient in whole.gradients.items():
        # float32: sums of 93 terms of order 3, and a handful of roundings each to make a term
        torch.testing.assert_close(actual[name], gradient, rtol=0, atol=3 * 64 * 2**-24)


def test_what_is_no_answer_is_reported_by_sample_and_place():
    inputs, targets = batch(4)
    targets[2, 1] = 5
    message = message_of(
        errors.DataError, MultiLabelClassifier(network()).predict, Batch(inputs, targets)
    )
    assert message.startswith("sample 2 of the batch has target 5 at place 1; should be 0 or 1; no")


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 4), (3, 3)])
def test_shapes_that_would_broadcast_or_fail_are_refused(shape):
    given = Batch(batch(4).inputs, torch.zeros(shape))
    message = message_of(errors.DataError, MultiLabelClassifier(network()).predict, given)
    assert message.startswith("MultiLabelClassifier: the network gives [4, 3] for ")
    assert "[batch, labels]" in message


@pytest.mark.parametrize("loss", [CrossEntropy(), nn.NLLLoss(), nn.BCELoss(), functional.nll_loss])
@pytest.mark.parametrize("task", [BinaryClassifier, MultiLabelClassifier])
def test_a_loss_of_classes_or_of_probabilities_is_refused(task, loss):
    said = message_of(ValueError, task, network(), loss)
    assert "does not take a logit for each yes or no; choose loss=binary_cross_entropy" in said


def test_answers_have_the_columns_of_a_table_with_one_for_each_label():
    task, facts = MultiLabelClassifier(nn.Identity()), {"target_columns": ["road", "water"]}
    (fields,) = task.answers(torch.tensor([[1.0, -1.0]]), facts)
    assert fields["labels"] == ("road",) and [*fields["probabilities"]] == ["road", "water"]
    assert task.target_text(torch.tensor([0, 1]), facts) == "water"

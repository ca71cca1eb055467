"""Classification: the steps around a network, against a plain loop."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from andiron import errors, inference, outputs, randomness
from andiron.data import Batch
from andiron.models import ConvNet
from andiron.optim import GradientsAccumulator
from andiron.protocols import TrainStep, ValidStep
from andiron.tasks import BinaryClassifier, Classifier
from andiron.tasks import BinaryCrossEntropy, CrossEntropy
from andiron.wings.trained import predictions
from refusals import message_of

SIZES = (5, 1, 7, 3, 2, 8, 4, 1)


class Bare(nn.Module):
    """Somebody's network that knows nothing of andiron."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(12, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Dropout(0.3)
        )
        self.head = nn.Linear(9, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs))


def bare() -> Bare:
    randomness.start_stream(0, "init")
    return Bare()


def batch(size: int) -> Batch:
    stream = randomness.stream(0, "batch", size)
    return Batch(
        torch.randn(size, 3, 4, generator=stream), torch.randint(4, (size,), generator=stream)
    )


def smoothed(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits, targets, label_smoothing=0.1)


losses = pytest.mark.parametrize("loss", [functional.cross_entropy, smoothed])


@losses
@pytest.mark.parametrize("size", [2, 7, 13])
def test_train_step_gives_the_gradients_and_values_of_a_plain_loop(
    loss: Callable[..., Tensor], size: int
) -> None:
    model, plain = Classifier(bare(), loss), bare()
    randomness.start_stream(0, "update", 0)
    logits = plain(batch(size).inputs)
    expected = loss(logits, batch(size).targets)
    expected.backward()
    randomness.start_stream(0, "update", 0)
    output = model.train_step(batch(size))
    assert list(output.gradients) == [f"network.{name}" for name, _ in plain.named_parameters()]
    for name, parameter in plain.named_parameters():
        assert torch.equal(output.gradients[f"network.{name}"], parameter.grad)
    item = output.item
    assert torch.equal(item.loss, expected) and torch.equal(item.output, logits)
    assert torch.equal(item.targets, batch(size).targets)
    assert not item.loss.requires_grad and not item.output.requires_grad  # without a graph
    assert [name for name, p in model.named_parameters() if p.grad is not None] == []


@losses
def test_valid_step_gives_what_train_step_gives_in_evaluation_mode(
    loss: Callable[..., Tensor],
) -> None:
    model = Classifier(bare(), loss)
    model.train_step(batch(11))  # so that the batch norm has something to remember
    model.eval()
    trained = model.train_step(batch(7)).item
    with inference.valid(model):
        measured = model.valid_step(batch(7))
    assert torch.equal(measured.loss, trained.loss)
    assert torch.equal(measured.output, trained.output)
    assert torch.equal(model(batch(7).inputs), model.network(batch(7).inputs))
    assert torch.equal(measured.targets, trained.targets)


@pytest.mark.parametrize(
    "network", [bare(), ConvNet((1, 8, 8), 10), nn.Linear(3, 2)], ids=lambda n: type(n).__name__
)
def test_any_network_in_a_classifier_has_both_steps_and_its_own_parameters(
    network: nn.Module,
) -> None:
    model = Classifier(network)
    assert isinstance(model, TrainStep) and isinstance(model, ValidStep)
    assert not isinstance(network, TrainStep) and not isinstance(network, ValidStep)
    assert list(model.state_dict()) == [f"network.{name}" for name in network.state_dict()]
    assert model.network is network


def test_metrics_get_the_likeliest_class_of_probability_targets() -> None:
    soft = torch.randn(7, 4, generator=randomness.stream(0, "soft")).softmax(1)
    inputs = batch(7).inputs
    model, plain = Classifier(bare().eval()), bare().eval()
    output = model.train_step(Batch(inputs, soft))
    functional.cross_entropy(plain(inputs), soft).backward()
    for name, parameter in plain.named_parameters():
        assert torch.equal(output.gradients[f"network.{name}"], parameter.grad)
    assert torch.equal(output.item.targets, soft.argmax(1))
    assert output.weight == 7 and not output.item.has_ignored


@pytest.mark.parametrize(("output", "targets", "words"), [
    (torch.zeros(7), torch.zeros(7).long(),
     r"gives \[7\] for targets \[7\]; should be \[batch, classes\] for class indices"),
    (torch.zeros(7, 4), torch.zeros(6).long(), r"gives \[7, 4\] for targets \[6\]; should be"),
    (torch.zeros(7, 4), torch.zeros(7, 1).long(),
     r"gives \[7, 4\] for targets \[7, 1\]; should be"),
    (torch.zeros(7, 4), torch.zeros(7),
     r"gives \[7, 4\] for targets \[7\]; should both be \[batch, classes\]"),
    (torch.zeros(7, 4), torch.zeros(7, 3),
     r"gives \[7, 4\] for targets \[7, 3\]; should both be \[batch, classes\]"),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_named(output: Tensor, targets: Tensor, words: str) -> None:
    with pytest.raises(errors.DataError, match=f"^Classifier: the network {words}"):
        Classifier(nn.Identity()).predict(Batch(output, targets))


def test_class_weights_from_the_datas_counts_reach_the_loss() -> None:
    model = Classifier(bare().eval(), CrossEntropy("balanced"), class_counts=[5, 5, 10, 20])
    logits, targets = model(batch(9).inputs), batch(9).targets
    expected = functional.cross_entropy(logits, targets, torch.tensor([2.0, 2.0, 1.0, 0.5]))
    item = model.predict(batch(9))
    assert torch.equal(item.loss, expected)
    assert item.weight == torch.tensor([2.0, 2.0, 1.0, 0.5])[targets].sum()


def yes_or_no(size: int) -> Batch:
    return Batch(batch(size).inputs, batch(size).targets % 2)


def one_logit(*last: nn.Module) -> nn.Module:
    randomness.start_stream(0, "init")
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 1), *last)


@pytest.mark.parametrize("last", [[], [nn.Flatten(0)]], ids=["[batch 1]", "[batch]"])
def test_a_binary_classifier_equals_a_plain_loop_in_gradients_and_values(
    last: list[nn.Module],
) -> None:
    model, plain = BinaryClassifier(one_logit(*last)), one_logit(nn.Flatten(0))
    logits = plain(yes_or_no(7).inputs)
    expected = functional.binary_cross_entropy_with_logits(logits, yes_or_no(7).targets.float())
    expected.backward()
    output = model.train_step(yes_or_no(7))
    for name, parameter in plain.named_parameters():
        assert torch.equal(output.gradients[f"network.{name}"], parameter.grad)
    assert torch.equal(output.item.loss, expected) and torch.equal(output.item.output, logits)
    assert torch.equal(output.item.targets, yes_or_no(7).targets) and output.weight == 7
    with inference.valid(model):
        assert torch.equal(model.valid_step(yes_or_no(7)).loss, expected)
    assert list(model.state_dict()) == ["network.1.weight", "network.1.bias"]


def test_a_binary_classifier_accepts_floats_booleans_and_probabilities() -> None:
    model, inputs = BinaryClassifier(one_logit()), batch(4).inputs
    item = model.predict(Batch(inputs, torch.tensor([0, 1, 1, 0])))
    for targets in (torch.tensor([0.0, 1.0, 1.0, 0.0]), torch.tensor([False, True, True, False])):
        other = model.predict(Batch(inputs, targets))
        assert torch.equal(other.loss, item.loss) and torch.equal(other.targets, item.targets)
    assert model.predict(Batch(inputs, torch.tensor([0.2, 0.5, 0.9, 0.0]))).targets.tolist() == [
        0, 1, 1, 0,
    ]  # fmt: skip


def test_uneven_binary_batches_with_ignored_targets_equal_one_batch() -> None:
    model = BinaryClassifier(one_logit(), BinaryCrossEntropy(3.0, ignored_index=7))
    whole = yes_or_no(31)
    targets = torch.where(torch.arange(31) % 4 == 2, 7, whole.targets)
    accumulator = GradientsAccumulator()
    for x, y in zip(whole.inputs.split(SIZES), targets.split(SIZES), strict=True):
        output = model.train_step(Batch(x, y))
        accumulator.add(output.gradients, output.weight)
    actual, expected = accumulator.mean(), model.train_step(Batch(whole.inputs, targets))
    assert (
        expected.weight == (targets != 7).sum()
        and outputs.num_targets(expected.item) == expected.weight
    )
    for name, gradient in expected.gradients.items():
        # float32: sums of 31 terms of order 3, and a handful of roundings each to make a term
        torch.testing.assert_close(actual[name], gradient, rtol=0, atol=3 * 64 * 2**-24)


@pytest.mark.parametrize(("ignored", "targets", "words"), [
    (None, [0, 2, 1, 0, -1],
     "sample 1 of the batch has target 2, sample 4 of the batch has target -1; "),
    (None, [0, 0.5, 1, 0, 1.5], "has target 1.5; should be 0 or 1; no target is ignored"),
    (-1, [0, torch.nan, 1, 0, -1], "has target nan; should be 0 or 1; -1 is ignored"),
])  # fmt: skip
def test_answers_other_than_yes_and_no_are_reported_with_their_samples(ignored, targets, words):
    model = BinaryClassifier(one_logit(), BinaryCrossEntropy(ignored_index=ignored))
    given = Batch(batch(5).inputs, torch.tensor(targets))
    assert words in message_of(errors.DataError, model.predict, given)


@pytest.mark.parametrize("outputs_", [2, 4])
def test_a_binary_classifier_refuses_a_network_with_more_outputs(outputs_: int) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, outputs_))
    message = message_of(errors.DataError, BinaryClassifier(network).predict, yes_or_no(5))
    assert f"BinaryClassifier: the network gives [5, {outputs_}] for " in message
    assert "num_outputs=1" in message
    assert dict(BinaryClassifier.network_facts) == {"num_classes": 1, "num_outputs": 1}


class Doubled(Classifier):
    """A task of a user: twice the cross entropy."""

    def predict(self, batch):
        logits = self.network(batch.inputs)
        loss = 2 * functional.cross_entropy(logits, batch.targets)
        return outputs.ClassificationOutput(loss, logits, batch.targets)


def test_both_steps_of_a_subclass_take_its_own_item_and_its_predictions_have_labels():
    batch = Batch(torch.randn(3, 12), torch.tensor([0, 1, 3]))
    own, shipped = Doubled(nn.Linear(12, 4)), Classifier(nn.Linear(12, 4))
    own.load_state_dict(shipped.state_dict())
    ours, theirs = own.train_step(batch), shipped.train_step(batch)
    assert ours.weight == theirs.weight == 3
    for name, gradient in theirs.gradients.items():
        torch.testing.assert_close(ours.gradients[name], 2 * gradient)
    assert own.valid_step(batch).loss == 2 * shipped.valid_step(batch).loss
    logits = torch.tensor([[0.0, 2.0]])
    (one,) = predictions.of_batch(own, logits, {"class_names": ["cat", "dog"]}, ["a"])
    assert one.label == "dog"

"""Classification: the steps around a network, against a plain loop."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from andiron import inference, randomness
from andiron.data import Batch
from andiron.models import ConvNet
from andiron.protocols import TrainStep, ValidStep
from andiron.tasks import Classifier


class Bare(nn.Module):
    """Somebody's network that knows nothing of andiron."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(12, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(9, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs))


def bare() -> Bare:
    randomness.start_stream(0, "init")
    return Bare()


def batch(size: int) -> Batch:
    stream = randomness.stream(0, "batch", size)
    return Batch(torch.randn(size, 3, 4, generator=stream), torch.randint(4, (size,), generator=stream))


def smoothed(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits, targets, label_smoothing=0.1)


losses = pytest.mark.parametrize("loss", [functional.cross_entropy, smoothed])


@losses
@pytest.mark.parametrize("size", [2, 7, 13])
def test_train_step_gives_the_gradients_and_values_of_a_plain_loop(loss: Callable[..., Tensor], size: int) -> None:
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
    assert torch.equal(output.item.loss, expected)
    assert torch.equal(output.item.output, logits)
    assert torch.equal(output.item.targets, batch(size).targets)


def test_loss_is_the_mean_cross_entropy_of_the_batch() -> None:
    model = Classifier(nn.Identity())
    item = model.valid_step(Batch(torch.tensor([[0.0, 0.0], [0.0, 0.0], [2.0, 2.0]]), torch.tensor([0, 1, 1])))
    assert item.loss.item() == pytest.approx(0.6931471805599453, abs=6e-8)  # ln 2, rounded to float32
    assert item.output.tolist() == [[0.0, 0.0], [0.0, 0.0], [2.0, 2.0]]


@losses
def test_valid_step_gives_what_train_step_gives_in_evaluation_mode(loss: Callable[..., Tensor]) -> None:
    model = Classifier(bare(), loss)
    model.train_step(batch(11))  # so that the batch norm has something to remember
    model.eval()
    trained = model.train_step(batch(7)).item
    with inference.valid(model):
        measured = model.valid_step(batch(7))
    assert torch.equal(measured.loss, trained.loss)
    assert torch.equal(measured.output, trained.output)
    assert torch.equal(measured.targets, trained.targets)


def test_train_step_leaves_nothing_on_grad() -> None:
    model = Classifier(bare())
    model.train_step(batch(7))
    assert [name for name, p in model.named_parameters() if p.grad is not None] == []


def test_item_of_a_train_step_holds_no_graph() -> None:
    item = Classifier(bare()).train_step(batch(7)).item
    assert (item.loss.grad_fn, item.output.grad_fn) == (None, None)
    assert not item.loss.requires_grad and not item.output.requires_grad


def test_a_frozen_part_has_no_gradient() -> None:
    model = Classifier(bare())
    model.network.body.requires_grad_(False)
    assert list(model.train_step(batch(7)).gradients) == ["network.head.weight", "network.head.bias"]


def test_forward_is_the_networks_own() -> None:
    network = bare().eval()
    assert torch.equal(Classifier(network)(batch(5).inputs), network(batch(5).inputs))


@pytest.mark.parametrize("network", [bare(), ConvNet((1, 8, 8), 10), nn.Linear(3, 2)], ids=lambda n: type(n).__name__)
def test_any_network_in_a_classifier_has_both_steps_and_its_own_parameters(network: nn.Module) -> None:
    model = Classifier(network)
    assert isinstance(model, TrainStep) and isinstance(model, ValidStep)
    assert not isinstance(network, TrainStep) and not isinstance(network, ValidStep)
    assert list(model.state_dict()) == [f"network.{name}" for name in network.state_dict()]
    assert model.network is network

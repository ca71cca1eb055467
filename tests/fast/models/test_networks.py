"""The networks: their layers, their sizes from the data, and what they compute."""

import functools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from andiron import randomness
from andiron.models import GPT, MLP, ConvNet, Dropout, LeNet, ResNet, convnet, zoo


def images(*shape: int) -> Tensor:
    return torch.randn(shape, generator=randomness.stream(0, "images", *shape))


def kinds(model: nn.Module) -> list[str]:
    """The layers in order, each as its representation."""
    return [repr(module) for module in model.modules() if not list(module.children())]


def guide(channels: int = 1, num_classes: int = 10) -> nn.Sequential:
    """The network of the Burn book's guide, by hand."""
    return nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3), Dropout(0.5), nn.Conv2d(8, 16, kernel_size=3),
        Dropout(0.5), nn.ReLU(), nn.AdaptiveAvgPool2d((8, 8)), nn.Flatten(), nn.Linear(1024, 512),
        Dropout(0.5), nn.ReLU(), nn.Linear(512, num_classes),
    )  # fmt: skip


def with_the_weights_of(model: nn.Module, by_hand: nn.Sequential) -> nn.Sequential:
    for mine, given in zip(by_hand.parameters(), model.parameters(), strict=True):
        mine.data.copy_(given)
    return by_hand


@pytest.mark.parametrize("shape", [(2, 3, 24, 24), (1, 2, 3, 13), (4, 1, 8, 9)], ids=str)
def test_the_pool_by_products_is_torchs(shape: Sequence[int]) -> None:
    """Values and gradients, as a GPU computes them."""
    inputs = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    actual, expected = convnet.by_products(inputs, 8), functional.adaptive_avg_pool2d(inputs, 8)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)
    into = torch.randn_like(actual)
    gradients = (torch.autograd.grad(value, inputs, into)[0] for value in (actual, expected))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-14)


def test_convnet_has_as_many_parameters_as_the_guide_counts() -> None:
    sizes = [parameter.numel() for parameter in ConvNet((1, 28, 28), 10).parameters()]
    assert sizes == [8 * 1 * 3 * 3, 8, 16 * 8 * 3 * 3, 16, 1024 * 512, 512, 512 * 10, 10]
    assert sum(sizes) == 531_178  # as the guide's own summary of the model says


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 17, 23), (1, 8, 8)], ids=str)
def test_convnet_equals_the_guides_layers_by_hand(shape: Sequence[int]) -> None:
    model = ConvNet(shape, 10).eval()
    by_hand = with_the_weights_of(model, guide(channels=shape[0])).eval()
    inputs = images(5, *shape)
    assert torch.equal(model(inputs), by_hand(inputs))
    assert model(inputs).shape == (5, 10)


def test_convnet_drops_where_the_guide_drops() -> None:
    model = ConvNet((1, 28, 28), 10)
    by_hand = with_the_weights_of(model, guide())
    inputs, actual = images(7, 1, 28, 28), []
    for network in (model, by_hand):
        randomness.start_stream(0, "update", 0)
        actual.append(network(inputs))
    assert torch.equal(actual[0], actual[1])
    assert not torch.equal(model(inputs), actual[0])  # the masks that come next


def test_convnet_takes_channels_and_classes_from_the_data() -> None:
    model = ConvNet((3, 32, 32), 7, hidden=24, dropout=0.25)
    assert [list(parameter.shape) for parameter in model.parameters()] == [
        [8, 3, 3, 3], [8], [16, 8, 3, 3], [16], [24, 1024], [24], [7, 24], [7]
    ]  # fmt: skip
    assert [module.p for module in model.modules() if isinstance(module, Dropout)] == [
        0.25, 0.25, 0.25,
    ]  # fmt: skip


def test_mlp_takes_its_sizes_from_the_data() -> None:
    model = MLP((3, 4, 5), 7, hidden=(11, 6))
    assert [list(parameter.shape) for parameter in model.parameters()] == [
        [11, 60], [11], [6, 11], [6], [7, 6], [7],
    ]  # fmt: skip


def test_mlp_without_hidden_layers_is_one_linear_layer() -> None:
    model = MLP((1, 4, 5), 7, hidden=())
    weight, bias = model.parameters()
    inputs = images(5, 1, 4, 5)
    assert torch.equal(model(inputs), nn.functional.linear(inputs.flatten(1), weight, bias))


def test_mlp_equals_its_formula() -> None:
    model = MLP((1, 4, 5), 3, hidden=(11, 6)).double()
    a, a0, b, b0, c, c0 = model.parameters()
    inputs = images(5, 1, 4, 5).double()
    hidden = (inputs.reshape(5, 20) @ a.t() + a0).clamp(min=0)
    expected = (hidden @ b.t() + b0).clamp(min=0) @ c.t() + c0
    # float64 sums of at most 20 products below 10, in another order: 20 * 10 * 1.1e-16
    torch.testing.assert_close(model(inputs), expected, rtol=0, atol=2.2e-14)


@pytest.mark.parametrize(("dropout", "layers"), [
    (0.0, ["Flatten", "Linear", "ReLU", "Linear", "ReLU", "Linear"]),
    (0.3, ["Flatten", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]),
])  # fmt: skip
def test_mlp_drops_after_each_hidden_layer_and_has_no_dropout_at_zero(
    dropout: float, layers: list[str]
) -> None:
    model = MLP((1, 4, 5), 3, hidden=(11, 6), dropout=dropout)
    assert [type(layer).__name__ for layer in model.layers] == layers
    assert {layer.p for layer in model.layers if isinstance(layer, Dropout)} == (
        {dropout} if dropout else set()
    )


ZOO = ("resnet18", "mobilenet_v3_small", "squeezenet1_1")
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "MLP": lambda: MLP((3, 32, 32), 10),
    "GPT": lambda: GPT(11, 8, layers=1, heads=2, dim=16),
    "ConvNet": lambda: ConvNet((3, 32, 32), 10),
    "LeNet": lambda: LeNet((3, 32, 32), 10),
    "ResNet": lambda: ResNet((3, 32, 32), 10, depth=8),
    **{name: functools.partial(zoo.torchvision, name, (3, 32, 32), 10) for name in ZOO},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_initial_weights_are_a_function_of_the_stream(name: str) -> None:
    weights = []
    for seed in (3, 3, 4):
        randomness.start_stream(seed, "init")
        weights.append(nn.utils.parameters_to_vector(NETWORKS[name]().parameters()))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_an_mlp_embeds_codes_and_leaves_numbers_as_they_are() -> None:
    model = MLP((3,), 2, hidden=[4], category_counts=[0, 5, 3])
    assert kinds(model)[:3] == [
        "Embedding(5, 4, padding_idx=0)", "Embedding(3, 3, padding_idx=0)",
        "Linear(in_features=8, out_features=4, bias=True)",
    ]  # fmt: skip
    embedding = model.layers[0]
    inputs = torch.tensor([[0.5, 4.0, 0.0], [-1.0, 0.0, 2.0]])
    five, three = (table.weight for table in embedding.tables)
    expected = [[inputs[:1, 0], five[4], torch.zeros(3)], [inputs[1:, 0], torch.zeros(4), three[2]]]
    assert torch.equal(embedding(inputs), torch.stack([torch.cat(row) for row in expected]))

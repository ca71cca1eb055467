"""LeNet-5: the paper's layers, its sizes from the data, and images of every size."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from andiron import randomness
from andiron.models import shapes
from andiron.models.lenet import LeNet
from andiron.optim.owners import match_rules


def images(*shape: int) -> Tensor:
    return torch.randn(shape, generator=randomness.stream(0, "images", *shape))


def by_hand(model: LeNet, inputs: Tensor) -> Tensor:
    """The network of the paper, from images of at least 32x32."""
    c1, b1, c3, b3, *linear = model.parameters()
    maps = functional.avg_pool2d(functional.conv2d(inputs, c1, b1).tanh(), 2)
    outputs = functional.avg_pool2d(functional.conv2d(maps, c3, b3).tanh(), 2).flatten(1)
    c5, b5, f6, b6, last, b = linear
    return functional.linear(
        functional.linear(functional.linear(outputs, c5, b5).tanh(), f6, b6).tanh(), last, b
    )


def test_the_number_of_parameters_is_the_papers() -> None:
    sizes = [parameter.numel() for parameter in LeNet((1, 32, 32), 10).parameters()]
    # C1 156 and C5 48,120 and F6 10,164 are the paper's; C3 has 2,416 for its 1,516, which skip
    # some channels
    assert sizes == [150, 6, 2400, 16, 48_000, 120, 10_080, 84, 840, 10]


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 33, 47), (2, 64, 36)], ids=str)
def test_it_computes_what_the_layers_of_the_paper_compute(shape: Sequence[int]) -> None:
    model, inputs = LeNet(shape, 7), images(5, *shape)
    assert torch.equal(model(inputs), by_hand(model, inputs))
    assert model(inputs).shape == (5, 7)


@pytest.mark.parametrize(
    ("shape", "padding"),  # left, right, top, bottom
    [
        ((1, 28, 28), (2, 2, 2, 2)),
        ((1, 8, 8), (12, 12, 12, 12)),
        ((3, 31, 40), (0, 0, 0, 1)),
        ((1, 1, 5), (13, 14, 15, 16)),
    ],
    ids=str,
)
def test_a_small_image_is_read_in_the_middle_of_zeros(
    shape: Sequence[int], padding: Sequence[int]
) -> None:
    model, inputs = LeNet(shape, 10), images(3, *shape)
    assert torch.equal(model(inputs), by_hand(model, functional.pad(inputs, padding)))


def test_a_shape_of_images_comes_back_as_it_is() -> None:
    assert shapes.of_images([3, 4, 5], "LeNet") == (3, 4, 5)


def test_rules_know_its_first_and_last_layer() -> None:
    described = match_rules.described(LeNet((1, 28, 28), 10))
    tagged = {
        tag: [value.name for value in described if tag in value.tags]
        for tag in (match_rules.FIRST, match_rules.LAST)
    }
    assert tagged == {
        "first": ["features.1.weight", "features.1.bias"],
        "last": ["head.4.weight", "head.4.bias"],
    }

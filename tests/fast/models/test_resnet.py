"""The residual networks for small images: the paper's sizes, its shortcuts, and what a block
computes."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from andiron import randomness
from andiron.models.resnet import Residual, ResNet
from andiron.optim.owners import match_rules

CIFAR = (3, 32, 32)


def images(*shape: int) -> Tensor:
    return torch.randn(shape, generator=randomness.stream(0, "images", *shape))


def num_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("depth", "millions"),
    [(20, "0.27"), (32, "0.46"), (44, "0.66"), (56, "0.85"), (110, "1.73")],  # table 6; 1.7 there
)
def test_it_has_as_many_parameters_as_the_paper_says(depth: int, millions: str) -> None:
    assert f"{num_parameters(ResNet(CIFAR, 10, depth=depth)) / 1e6:.2f}" == millions


def test_a_wider_one_has_as_many_times_the_channels() -> None:
    model = ResNet(CIFAR, 7, depth=8, width=24)
    assert [module.out_channels for module in model.modules() if isinstance(module, nn.Conv2d)] == [
        24, 24, 24, 48, 48, 96, 96,
    ]  # fmt: skip
    assert model.head[-1].weight.shape == (7, 96)


@pytest.mark.parametrize(("shape", "last"), [
    (CIFAR, (8, 8)), ((1, 8, 8), (2, 2)), ((1, 28, 28), (7, 7)), ((2, 5, 9), (2, 3)),
])  # fmt: skip
def test_each_stage_after_the_first_halves_the_size(
    shape: Sequence[int], last: Sequence[int]
) -> None:
    model = ResNet(shape, 7, depth=14, width=4)
    assert model.blocks(model.stem(images(3, *shape))).shape == (3, 16, *last)
    assert model(images(3, *shape)).shape == (3, 7)


@pytest.mark.parametrize("leaving", [4, 8])
def test_a_block_is_the_sum_of_its_shortcut_and_its_layers(leaving: int) -> None:
    block, inputs, stride = Residual(4, leaving).eval(), images(5, 4, 7, 6), leaving // 4
    first, second = block.layers[0].weight, block.layers[3].weight
    norm = 1 / (1 + 1e-5) ** 0.5  # of a batch norm that has seen nothing: mean 0, variance 1
    hidden = functional.relu(functional.conv2d(inputs, first, stride=stride, padding=1) * norm)
    added = functional.conv2d(hidden, second, padding=1) * norm
    shortcut = inputs
    if leaving == 8:
        shortcut = torch.cat([inputs[:, :, ::2, ::2], torch.zeros(5, 4, 4, 3)], dim=1)
    # float32: 72 products below 10 a sum, in another order, at 6e-8 each
    torch.testing.assert_close(block(inputs), (shortcut + added).clamp(min=0), rtol=0, atol=5e-5)


def test_convolutions_start_from_the_variance_two_over_fan_in() -> None:
    torch.manual_seed(0)
    model = ResNet(CIFAR, 10, width=32)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            values = module.weight.detach().flatten() / (2 / module.weight[0].numel()) ** 0.5
            # of n normal values the mean square has deviation sqrt(2 / n): 5 of them; false alarm
            # 6e-7 each
            assert abs(float(values.square().mean()) - 1) < 5 * (2 / len(values)) ** 0.5


def test_rules_know_its_first_and_last_layer_and_its_blocks_go_by_number() -> None:
    described = match_rules.described(ResNet(CIFAR, 10, depth=8))
    tagged = {
        tag: [value.name for value in described if tag in value.tags]
        for tag in (match_rules.FIRST, match_rules.LAST)
    }
    assert tagged == {"first": ["stem.0.weight"], "last": ["head.2.weight", "head.2.bias"]}
    assert {
        value.name.rpartition(".layers")[0]
        for value in described
        if match_rules.HIDDEN in value.tags
    } == {"", "blocks.0", "blocks.1", "blocks.2"}

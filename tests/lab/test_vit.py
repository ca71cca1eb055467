"""The vision transformer: its patches, its head, and what it does not depend on."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from andiron import randomness
from andiron.models import Dropout
from andiron.optim.owners import match_rules
from andiron_lab.networks import ViT
from refusals import message_of

SMALL = {"patch": 2, "dim": 12, "depth": 3, "heads": 3}


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=randomness.stream(0, "random", *shape))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 4, 10)], ids=str)
def test_each_patch_is_mapped_linearly_plus_its_position(shape: Sequence[int]) -> None:
    patches, inputs = ViT(shape, 7, **SMALL).patches, random(5, *shape)
    columns, weight = shape[2] // 2, patches.weight.flatten(1)
    for place in range(shape[1] // 2 * columns):
        row, column = divmod(place, columns)
        pixels = inputs[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten(1)
        expected = pixels @ weight.mT + patches.bias + patches.positions[place]
        # float32: sums of 12 products below 5, in another order, at 6e-8 each
        torch.testing.assert_close(patches(inputs)[:, place], expected, rtol=0, atol=4e-6)


def test_logits_are_a_linear_map_of_the_mean_over_the_places() -> None:
    model, inputs = ViT((1, 8, 8), 7, **SMALL), random(5, 1, 8, 8)
    states = model.blocks(model.patches(inputs))
    assert torch.equal(model(inputs), model.head(functional.layer_norm(states, (12,)).mean(1)))
    assert model(inputs).shape == (5, 7)


def test_without_places_the_order_of_the_patches_does_not_matter() -> None:
    model, inputs = ViT((1, 8, 8), 7, **SMALL).double(), random(5, 1, 8, 8).double()
    swapped = torch.cat([inputs[:, :, 4:], inputs[:, :, :4]], dim=2)
    assert not torch.allclose(model(inputs), model(swapped), rtol=0, atol=1e-4)
    nn.init.zeros_(model.patches.positions)
    # float64: sums over the patches in another order
    torch.testing.assert_close(model(inputs), model(swapped), rtol=0, atol=1e-14)


def test_it_has_the_parameters_counted_by_hand() -> None:
    block = 2 * 2 * 128 + 4 * 128 * 128 + 4 * 128 + 2 * 4 * 128 * 128 + 5 * 128
    expected = 16 * 128 + 128 + 49 * 128 + 6 * block + 2 * 128 + 128 * 10 + 10
    assert sum(parameter.numel() for parameter in ViT((1, 28, 28), 10).parameters()) == expected


def test_its_options_say_how_wide_and_how_deep_it_is_and_where_it_drops() -> None:
    model = ViT((3, 12, 8), 7, patch=4, dim=20, depth=2, heads=5, mlp_ratio=1.5, dropout=0.25)
    assert [block.feed_forward.expansion.out_features for block in model.blocks] == [30, 30]
    assert model.patches.positions.shape == (6, 20)
    assert [module.p for module in model.modules() if isinstance(module, Dropout)] == [
        0.25, 0.25, 0.25,
    ]  # fmt: skip


def test_patches_and_positions_are_tagged_first_and_the_head_last() -> None:
    described = match_rules.described(ViT((1, 8, 8), 10, **SMALL))
    tagged = {
        tag: [value.name for value in described if tag in value.tags]
        for tag in (match_rules.FIRST, match_rules.LAST)
    }
    assert tagged == {
        "first": ["patches.weight", "patches.bias", "patches.positions"],
        "last": ["head.weight", "head.bias"],
    }


def test_initial_weights_are_a_function_of_the_stream() -> None:
    weights = []
    for seed in (3, 3, 4):
        randomness.start_stream(seed, "init")
        parameters = ViT((3, 32, 32), 10, **SMALL).parameters()
        weights.append(torch.cat([parameter.flatten() for parameter in parameters]))
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(("shape", "options", "words"), [
    ((1, 8, 8), {"dim": 10, "heads": 4},
     "dim=10 is not divisible by heads=4; each head takes an equal part of dim"),
    ((10,), {}, "input_shape=(10,): ViT reads images, of shape (channels, height, width)"),
    *[(shape, {"patch": patch},
       f"patch={patch}: an image of {shape[1]}x{shape[2]} is not divisible into patches of ")
      for shape, patch in (((1, 28, 28), 5), ((1, 8, 10), 4), ((1, 10, 8), 4), ((1, 8, 8), 16))],
])  # fmt: skip
def test_what_cannot_be_is_refused(shape, options, words):
    assert words in message_of(ValueError, ViT, shape, 10, **options)

"""Samples and their classes mixed: against loops by hand."""

import math

import pytest
import torch

from andiron import errors, randomness
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch
from andiron_lab.data.mixup import Mixup, symmetric_beta
from refusals import message_of

SIZE = 23
IMAGES = torch.randint(
    1, 256, (SIZE, 3, 7, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
)  # no zeros
TARGETS = torch.arange(SIZE) % 5


def mix(alpha=0.4, *, images=IMAGES, targets=TARGETS, epoch=0, first=0):
    return Mixup(alpha, 5)(
        RawBatch(images, targets), Draws(7, epoch, torch.arange(first, first + len(images)))
    )


def test_mixup_is_a_loop_over_each_image_and_the_one_before_it():
    mixed = mix()
    weight = float(symmetric_beta(0.4, randomness.uniform(7, "mixup", 0, torch.tensor([0]), 2)[0]))
    for number in range(SIZE):
        image = weight * IMAGES[number].double() + (1 - weight) * IMAGES[number - 1].double()
        target = torch.zeros(5, dtype=torch.float64)
        target[TARGETS[number]] += weight
        target[TARGETS[number - 1]] += 1 - weight
        # float32, three roundings
        torch.testing.assert_close(mixed.inputs[number].double(), image, rtol=0, atol=255 * 2**-22)
        torch.testing.assert_close(mixed.targets[number].double(), target, rtol=0, atol=2**-22)


def test_mixed_targets_sum_to_one_and_mixed_pixels_lie_between_the_two():
    for epoch in range(20):
        mixed = mix(epoch=epoch)
        assert (mixed.inputs.dtype, mixed.targets.dtype, mixed.targets.shape) == (
            torch.float32, torch.float32, (SIZE, 5),
        )  # fmt: skip
        torch.testing.assert_close(mixed.targets.sum(1), torch.ones(SIZE), rtol=0, atol=2**-22)
        assert mixed.targets.min() >= 0
        pair = torch.stack([IMAGES, IMAGES.roll(1, 0)]).float()
        assert (
            (mixed.inputs >= pair.amin(0) - 2**-15) & (mixed.inputs <= pair.amax(0) + 2**-15)
        ).all()  # a last bit of 255


def test_mixup_is_a_function_of_the_batch():
    assert torch.equal(mix().inputs, mix().inputs)
    assert not torch.equal(mix().inputs, mix(epoch=1).inputs)
    assert not torch.equal(mix().inputs, mix(first=1).inputs)


def test_a_batch_of_one_is_mixed_with_itself():
    mixed = mix(images=IMAGES[:1], targets=TARGETS[:1])
    assert torch.equal(mixed.inputs, IMAGES[:1].float())
    assert torch.equal(mixed.targets, torch.eye(5)[TARGETS[:1]])


def test_what_was_mixed_can_be_mixed_again():
    again = Mixup(1.0, 5, name="second")(mix(), Draws(7, 0, torch.arange(SIZE)))
    torch.testing.assert_close(again.targets.sum(1), torch.ones(SIZE), rtol=0, atol=2**-21)


@pytest.mark.parametrize("targets", [torch.zeros(SIZE), torch.zeros(SIZE, 2, dtype=torch.long)])
def test_mixup_refuses_what_are_no_classes(targets):
    assert message_of(errors.DataError, mix, targets=targets).startswith(
        "augmentation.mixup: mixes classes, one a sample, and the targets here are ["
    )


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1, 2.5, 40.0])
def test_shares_are_distributed_as_beta(alpha):
    number = 50_000
    uniform = randomness.uniform(3, "beta", 0, torch.arange(number), 2)
    result = symmetric_beta(alpha, uniform).double().sort().values
    assert 0 <= result[0] and result[-1] <= 1
    density = torch.distributions.Beta(
        torch.tensor(alpha, dtype=torch.float64), torch.tensor(alpha, dtype=torch.float64)
    )
    # moments exact: E x = 1/2, var = 1 / (4 (2a + 1)); four standard deviations, the fourth moment
    # bounded by that of a coin
    variance = float(density.variance)
    assert abs(result.mean() - 0.5) < 4 * math.sqrt(variance / number)
    assert abs(result.var() - variance) < 4 * 0.25 / math.sqrt(number)
    if alpha in (0.5, 1):  # whose distribution functions are plain
        cumulative = result if alpha == 1 else 2 / math.pi * result.sqrt().asin()
        steps = torch.arange(1, number + 1) / number
        # Kolmogorov: once in 10,000 seeds
        assert (cumulative - steps).abs().max() < 2.23 / math.sqrt(number)


def test_shares_at_the_ends_of_the_draws_are_numbers():
    ends = torch.tensor(
        [[0.0, 0.25], [0.0, 0.0], [1 - 2**-24, 0.25], [1 - 2**-24, 0.5], [0.5, 0.75]]
    )
    for alpha in (0.01, 0.2, 1.0, 100.0):
        shares = symmetric_beta(alpha, ends)
        assert ((shares >= 0) & (shares <= 1)).all()


def test_mixup_does_not_wait_for_the_device(host_reads):
    with host_reads() as reads:
        mix()
    assert reads.number == 0

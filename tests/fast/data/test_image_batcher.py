"""From stored samples to what a network takes."""

import dataclasses

import pytest
import torch

from andiron.data import ImageBatcher, RawBatch

CPU = torch.device("cpu")
TARGETS = torch.tensor([7, 0, 7])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
def test_pixels_become_pixel_over_scale_minus_mean_over_std(dtype):
    # powers of two: every step is exact
    raw = RawBatch(torch.tensor([[0, 1], [2, 4], [3, 8]], dtype=dtype), TARGETS)
    batch = ImageBatcher(mean=0.5, std=0.25, scale=4.0)(raw, CPU)
    assert batch.inputs.dtype == torch.float32
    assert torch.equal(batch.inputs, torch.tensor([[-2.0, -1.0], [0.0, 2.0], [1.0, 6.0]]))
    assert torch.equal(batch.targets, TARGETS)


NUMBERS = pytest.mark.parametrize("mean, std", [(0.1, 0.2), ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))])


@NUMBERS
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_the_stored_samples_stay_as_they_are(dtype, mean, std):
    pixels = torch.randint(256, (3, 3, 4, 6)).to(dtype)
    raw = RawBatch(pixels.clone(), TARGETS.clone())
    ImageBatcher(mean, std)(raw, CPU)
    assert torch.equal(raw.inputs, pixels)
    assert torch.equal(raw.targets, TARGETS)


@NUMBERS
def test_channels_last_is_the_same_batch_laid_out_otherwise(mean, std):
    raw = RawBatch(torch.randint(256, (5, 3, 4, 6), dtype=torch.uint8), torch.arange(5))
    plain = ImageBatcher(mean, std)
    last = dataclasses.replace(plain, channels_last=True)(raw, CPU)
    assert torch.equal(plain(raw, CPU).inputs, last.inputs)
    assert last.inputs.is_contiguous(memory_format=torch.channels_last)


def test_channels_are_standardised_each_by_its_own_numbers():
    # powers of two: every step is exact
    pixels = torch.tensor([[[[0, 4]], [[2, 8]]], [[[6, 8]], [[0, 1]]]], dtype=torch.uint8)
    batch = ImageBatcher(mean=(0.5, 0.25), std=(0.25, 2.0), scale=4.0)(
        RawBatch(pixels, torch.arange(2)), CPU
    )
    assert torch.equal(batch.inputs[:, 0], torch.tensor([[[-2.0, 2.0]], [[4.0, 6.0]]]))
    assert torch.equal(batch.inputs[:, 1], torch.tensor([[[0.125, 0.875]], [[-0.125, 0.0]]]))
    assert batch.inputs.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_every_pixel_of_every_channel_is_within_rounding_of_the_formula(dtype):
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    pixels = torch.arange(256, dtype=dtype).view(1, 1, 16, 16).expand(2, 3, 16, 16)
    batch = ImageBatcher(mean=mean, std=std)(RawBatch(pixels, torch.arange(2)), CPU)
    means, stds = (torch.tensor(value, dtype=torch.float64)[:, None, None] for value in (mean, std))
    reference = (pixels.double() / 255 - means) / stds
    # four roundings to float32 (slope, offset, product, sum), each at most 2**-24 of something
    # below 1 / std
    torch.testing.assert_close(batch.inputs.double(), reference, rtol=0, atol=4 * 2**-24 / min(std))
    assert batch.inputs.dtype == torch.float32


def test_one_number_for_all_channels_may_stand_beside_one_for_each():
    raw = RawBatch(torch.randint(256, (5, 2, 3, 4), dtype=torch.uint8), torch.arange(5))
    spelled = ImageBatcher(mean=(0.5, 0.5), std=(0.25, 0.5))(raw, CPU)
    assert torch.equal(ImageBatcher(mean=0.5, std=(0.25, 0.5))(raw, CPU).inputs, spelled.inputs)
    assert torch.equal(
        ImageBatcher(mean=(0.5, 0.5), std=0.25)(raw, CPU).inputs[:, 0], spelled.inputs[:, 0]
    )

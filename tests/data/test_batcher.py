"""From stored samples to what a network takes."""

import pytest
import torch

from andiron.data import ImageBatcher, RawBatch

CPU = torch.device("cpu")
TARGETS = torch.tensor([7, 0, 7])


def test_pixels_become_pixel_over_scale_minus_mean_over_std():
    # powers of two: every step is exact
    raw = RawBatch(torch.tensor([[0, 1], [2, 4], [3, 8]], dtype=torch.uint8), TARGETS)
    batch = ImageBatcher(mean=0.5, std=0.25, scale=4.0)(raw, CPU)
    assert torch.equal(batch.inputs, torch.tensor([[-2.0, -1.0], [0.0, 2.0], [1.0, 6.0]]))
    assert torch.equal(batch.targets, TARGETS)


@pytest.mark.parametrize("mean, std, scale", [(0.1307, 0.3081, 255.0), (0.3053, 0.3760, 16.0)])
def test_every_pixel_value_is_within_rounding_of_the_formula(mean, std, scale):
    pixels = torch.arange(int(scale) + 1, dtype=torch.uint8)
    batch = ImageBatcher(mean=mean, std=std, scale=scale)(RawBatch(pixels, torch.zeros(len(pixels), dtype=torch.long)), CPU)
    reference = torch.tensor([(pixel / scale - mean) / std for pixel in pixels.tolist()], dtype=torch.float64)
    # four roundings to float32 (slope, offset, product, difference), each at most 2**-24 of something below 1 / std
    tolerance = 4 * 2**-24 / std
    assert batch.inputs.dtype == torch.float32
    torch.testing.assert_close(batch.inputs.double(), reference, rtol=0, atol=tolerance)


def test_the_default_scale_is_that_of_bytes():
    raw = RawBatch(torch.tensor([[0], [255]], dtype=torch.uint8), torch.tensor([1, 0]))
    assert ImageBatcher(mean=0.0, std=1.0)(raw, CPU).inputs.tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_the_stored_samples_stay_as_they_are(dtype):
    pixels = torch.tensor([[0, 1], [2, 4], [3, 8]], dtype=dtype)
    raw = RawBatch(pixels.clone(), TARGETS.clone())
    ImageBatcher(mean=0.5, std=0.25, scale=4.0)(raw, CPU)
    assert torch.equal(raw.inputs, pixels)
    assert torch.equal(raw.targets, TARGETS)


def test_channels_last_is_the_same_batch_laid_out_otherwise():
    raw = RawBatch(torch.randint(256, (5, 3, 4, 6), dtype=torch.uint8), torch.arange(5))
    plain, last = ImageBatcher(0.1, 0.2)(raw, CPU), ImageBatcher(0.1, 0.2, channels_last=True)(raw, CPU)
    assert torch.equal(plain.inputs, last.inputs)
    assert last.inputs.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_stored_floats_become_float32(dtype):
    raw = RawBatch(torch.tensor([[0, 1], [2, 4], [3, 8]], dtype=dtype), TARGETS)
    batch = ImageBatcher(mean=0.5, std=0.25, scale=4.0)(raw, CPU)
    assert batch.inputs.dtype == torch.float32
    assert torch.equal(batch.inputs, torch.tensor([[-2.0, -1.0], [0.0, 2.0], [1.0, 6.0]]))

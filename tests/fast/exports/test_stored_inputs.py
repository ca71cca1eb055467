"""The preprocessing in a program is that of the run's batches."""

import pytest
import torch

from andiron import errors
from andiron.data import ArrayBatcher, ImageBatcher, RawBatch
from andiron.data.on_disk.text_file import TextBatcher
from andiron.wings.trained.exports.stored_inputs import preprocessing

PIXELS = torch.randint(256, (5, 3, 4, 2), dtype=torch.uint8)
CASES = [
    (ImageBatcher(0.3, 0.4), PIXELS),
    (ImageBatcher((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), channels_last=True), PIXELS),
    (ImageBatcher(0.3, (0.5, 0.6, 0.7), scale=16.0), PIXELS.half()),
    (ArrayBatcher((1.0, -20.0, 3.0), (0.5, 10.0, 7.0)), torch.randn(5, 3).double() * 9),
    (ArrayBatcher(), PIXELS),
    (ArrayBatcher((1.0,), (2.0,)), torch.randn(5)),
    (ArrayBatcher((1.0,), (2.0,)), torch.arange(15, dtype=torch.int16).view(5, 3)),
    (TextBatcher(), torch.arange(15, dtype=torch.int64).view(5, 3)),
]


@pytest.mark.parametrize(("batcher", "stored"), CASES)
def test_it_gives_the_inputs_of_the_batcher(batcher, stored):
    expected = batcher(RawBatch(stored, torch.zeros(5)), torch.device("cpu")).inputs
    found = preprocessing(batcher, stored)(stored)
    assert found.dtype == expected.dtype
    # a float32 slope and offset are off by half a unit each, and so is each of two operations
    torch.testing.assert_close(found, expected, rtol=3e-7, atol=1e-6)


def test_a_batcher_of_the_users_own_is_refused():
    with pytest.raises(errors.DataError) as error:
        preprocessing(lambda raw, device: raw, PIXELS)
    assert str(error.value) == (
        "function: your own batcher is not exported; leave out --preprocessing"
    )

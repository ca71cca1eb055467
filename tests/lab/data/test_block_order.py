"""The order by blocks: a permutation, near in the file, of any number of samples."""

import tracemalloc

import torch
from hypothesis import given, strategies as st

from andiron_lab.data.block_order import BlockOrder


@given(
    size=st.integers(1, 5_000), block=st.integers(1, 70), window=st.integers(1, 9),
    cut=st.floats(0, 1),
)  # fmt: skip
def test_blocks_hold_every_sample_once_in_any_slices(size, block, window, cut):
    order, place = BlockOrder(size, 3, 5, block=block, window=window), int(cut * size)
    whole = order[0:size]
    assert whole.sort().values.tolist() == [*range(size)] and len(order) == size
    assert torch.equal(torch.cat([order[0:place], order[place : size + 7]]), whole)
    for samples in whole.split(block * window):  # a window has whole blocks, and the short one
        assert len(samples.div(block, rounding_mode="floor").unique()) <= window + 1


def test_windows_have_random_blocks_and_places_in_each_epoch():
    firsts = torch.stack(
        [BlockOrder(50, seed, epoch, block=5, window=2)[0:1] for seed in range(40)
         for epoch in range(100)]
    )  # fmt: skip
    counts = torch.bincount(firsts.flatten(), minlength=50).double()
    # chi-squared with 49 degrees of freedom exceeds 109 with probability 1e-6
    assert ((counts - 80).square() / 80).sum() < 109


def test_a_thousand_million_samples_take_the_memory_of_a_window():
    tracemalloc.start()
    order = BlockOrder(10**9, 3, 0, block=1024, window=64)
    assert len(order[9 * 10**8 : 9 * 10**8 + 64].unique()) == 64
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()

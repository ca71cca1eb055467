"""Streams: distinct, repeatable, and the same on every machine and in every version."""

import json
import random
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from andiron import randomness

PURPOSES = ("init", "order", "update", "split", "augment")


def mixed(state, counter):
    """Number `counter` of SplitMix64 from `state`, as Steele, Lea & Flood 2014 write it."""
    state = (state + (counter + 1) * 0x9E3779B97F4A7C15) % 2**64
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
    return state ^ (state >> 31)


def test_the_reference_gives_the_published_first_numbers() -> None:
    # https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64
    assert [mixed(1234567, counter) for counter in range(3)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
    ]  # fmt: skip


@pytest.mark.parametrize("stream", [*[(purpose,) for purpose in PURPOSES], ("augment", 3)])
def test_counters_number_the_outputs_of_splitmix64(stream: tuple[object, ...]) -> None:
    state = randomness.derive(42, *stream)
    assert [randomness.derive(42, *stream, counter) for counter in range(100)] == [
        mixed(state, counter) for counter in range(100)
    ]


def test_derived_seeds_never_change() -> None:
    # by `printf 42/order | b2sum -l 64`, read from its last byte, and SplitMix64 in C: other
    # numbers than these
    # would silently give every recorded run another order and other dropout
    assert randomness.derive(42, "order") == 0x0FB72EFFE1D47902
    assert randomness.derive(42, "update") == 0x7A92339BE2B68028
    assert randomness.derive(0, "init") == 0x6C97319BFA2A6BD8
    assert randomness.derive(42, "order", 0) == 10103172324241604689
    assert randomness.derive(42, "order", 1) == 15781213514466698314
    assert randomness.derive(42, "update", 1000) == 10584197704047107167
    assert randomness.derive(42, "update", 3, 5) == 635200619515819149


def test_counters_are_not_interchangeable_and_the_largest_fit_64_bits() -> None:
    assert randomness.derive(0, "augment", 1, 2) != randomness.derive(0, "augment", 2, 1)
    assert randomness.derive(0, "augment", 0) != randomness.derive(0, "augment", 0, 0)
    assert 0 <= randomness.derive(2**63 - 1, "update", 2**63) < 2**64


def test_a_stream_repeats_and_leaves_the_default_generator_alone() -> None:
    before = torch.get_rng_state()
    one, again = (torch.rand(101, generator=randomness.stream(7, "split", 2)) for _ in range(2))
    assert torch.equal(one, again) and torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("size", [0, 1, 2, 37, 1000])
def test_permutation_holds_every_index_once(size: int) -> None:
    assert randomness.permutation(size, seed=3, epoch=5).sort().values.tolist() == list(range(size))


def test_permutation_is_a_function_of_seed_and_epoch_alone() -> None:
    def orders() -> list[tuple[int, ...]]:
        return [tuple(randomness.permutation(23, seed, epoch).tolist())
                for seed in range(20) for epoch in range(50)]  # fmt: skip

    first = orders()
    torch.rand(17)
    assert orders() == first and len({*first}) == 1000


@given(size=st.integers(1, 40_000), seed=st.integers(0, 2**32), cut=st.floats(0, 1))
def test_a_long_order_holds_every_index_once_in_any_slices(
    size: int, seed: int, cut: float
) -> None:
    order, place = randomness.LongOrder(size, seed, epoch=5), int(cut * size)
    whole = order[0:size]
    assert whole.sort().values.tolist() == [*range(size)] and len(order) == size
    assert torch.equal(torch.cat([order[0:place], order[place : size + 7]]), whole)


def test_indices_and_steps_of_long_orders_are_uniform() -> None:
    rows = torch.stack([randomness.LongOrder(101, 0, epoch)[0:101] for epoch in range(1_000)])
    for numbers, values in ((rows[:, 0], 101), ((rows[:, 50] - rows[:, 49]) % 101 - 1, 100)):
        counts = torch.bincount(numbers, minlength=values).double()
        expected = 1_000 / values
        # chi-squared with 100 degrees of freedom exceeds 181 with probability 1e-6
        assert ((counts - expected).square() / expected).sum() < 181


def test_a_batch_of_a_thousand_million_samples_takes_no_memory() -> None:
    tracemalloc.start()
    order = randomness.LongOrder(10**9, 3, 0)
    assert len(order[9 * 10**8 : 9 * 10**8 + 64].unique()) == 64
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def draws() -> list[torch.Tensor]:
    """Uniform, normal and integer numbers, and a mask of torch's own dropout."""
    return [
        torch.rand(17), torch.randn(5), torch.randint(10, (9,)), nn.Dropout(0.5)(torch.ones(33)),
        torch.randn(1),
    ]  # fmt: skip


def test_start_stream_makes_torch_draws_repeat_whatever_was_drawn_before() -> None:
    result = []
    for drawn_before in (0, 1, 6):
        # an odd number of normals leaves one of a pair behind in the generator
        torch.randn(drawn_before)
        randomness.start_stream(42, "update", 17)
        result.append(torch.cat([draw.double() for draw in draws()]))
    assert torch.equal(result[1], result[0])
    assert torch.equal(result[2], result[0])


def test_start_stream_draws_equal_stream_and_torch_manual_seed() -> None:
    randomness.start_stream(42, "update", 17)
    result = torch.rand(101)
    assert torch.equal(result, torch.rand(101, generator=randomness.stream(42, "update", 17)))
    torch.manual_seed(randomness.derive(42, "update", 17))
    assert torch.equal(result, torch.rand(101))


def test_uniform_numbers_equal_the_counters_in_python():
    result = randomness.uniform(7, "flip", 3, torch.tensor([0, 5, 2**40]), 4)

    for row, index in enumerate((0, 5, 2**40)):
        for column in range(4):
            assert (
                float(result[row, column])
                == (mixed(mixed(randomness.derive(7, "flip", 3), index), column) >> 40) * 2.0**-24
            )


def others_draw():
    return random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.rand()


def test_pythons_and_numpys_generators_are_put_back_where_they_stood():
    randomness.seed_others(5)
    random.gauss(0, 1)
    np.random.standard_normal()  # each then holds a second normal number
    state = json.loads(json.dumps(randomness.global_generator_state()))
    drawn = [others_draw() for _ in range(2)]
    randomness.seed_others(6)
    other = others_draw()
    randomness.restore_global_generators(state)
    assert [others_draw() for _ in range(2)] == drawn and other not in drawn


def test_a_seed_decides_what_pythons_and_numpys_generators_draw():
    drawn = []
    for seed in (5, 6, 5):
        randomness.seed_others(seed)
        drawn.append(others_draw())
    assert drawn[0] == drawn[2] != drawn[1]

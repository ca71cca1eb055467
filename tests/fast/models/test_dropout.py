"""Dropout from random words: its rate, its scale, its independence in every direction, and the
arguments it depends on.

Every statistical bound is passed by a sound generator with the probability given beside it ("false
alarm"), so a failure under another seed would mean something too; the seeds are fixed, so a test
passes always or never.
"""

import math

import pytest
import torch
from torch import Tensor

from andiron import randomness
from andiron.models import Dropout

MANY = 1_000_003  # elements; no multiple of four
# how many of 65536 levels are dropped, by hand: 65536 p, rounded, and never all of them
DROPPED_LEVELS = {
    1 / 65536: 1, 0.01: 655, 0.1: 6554, 0.25: 16384, 1 / 3: 21845, 0.5: 32768, 0.9: 58982,
    0.999999: 65535,
}  # fmt: skip
each_p = pytest.mark.parametrize("p", DROPPED_LEVELS)


def start(update: int = 0, seed: int = 0) -> None:
    randomness.start_stream(seed, "update", update)


@pytest.fixture(autouse=True)
def at_the_start() -> None:
    """Every test begins at the start of the same stream."""
    start()


def kept(p: float, *shape: int) -> Tensor:
    """Which elements the next dropout layer keeps, as booleans."""
    return Dropout(p)(torch.ones(shape)) != 0


def standardised(mask: Tensor, rate: float) -> Tensor:
    """The mask with mean 0 and variance 1, if its elements are kept at that rate."""
    return (mask.double() - rate) / math.sqrt(rate * (1 - rate))


def largest_correlation(masks: Tensor, rate: float) -> float:
    """The largest correlation between two of the rows, in standard deviations of that of
    independent ones."""
    rows = standardised(masks, rate)
    return float((rows @ rows.t() / math.sqrt(rows.shape[1])).fill_diagonal_(0).abs().max())


def chi_squared(counts: Tensor, expected: Tensor) -> float:
    return float(((counts.double() - expected).square() / expected).sum())


@each_p
def test_as_many_elements_are_kept_as_the_binomial_law_allows(p: float) -> None:
    size = 4 * MANY
    rate = 1 - DROPPED_LEVELS[p] / 65536
    deviation = math.sqrt(size * rate * (1 - rate))
    # 5 standard deviations: false alarm 6e-7, and 2e-6 for the two extreme rates, where 61 are
    # expected
    assert abs(int(kept(p, size).sum()) - size * rate) < 5 * deviation


@pytest.mark.parametrize(("p", "dtype"), [
    *[(p, dtype) for p in DROPPED_LEVELS for dtype in (torch.float32, torch.float64)],
    (0.5, torch.float16), (0.5, torch.bfloat16),  # in half precision a scale of two is exact
], ids=str)  # fmt: skip
def test_what_is_kept_is_scaled_by_the_inverse_of_the_rate_exactly(p, dtype) -> None:
    inputs = torch.randn(MANY).to(dtype)
    given = inputs.clone()
    output = Dropout(p)(inputs)
    assert output.dtype == dtype and torch.equal(inputs, given)
    expected = inputs * (65536 / (65536 - DROPPED_LEVELS[p]))
    assert torch.equal(output, torch.where(output != 0, expected, 0))


def test_all_levels_are_equally_likely() -> None:
    masks = []
    for sixteenth in range(16):
        start()
        masks.append(kept(sixteenth / 16, 4 * MANY))
    kept_counts = torch.stack([mask.sum() for mask in masks] + [torch.tensor(0)])
    # between two such rates lie 4096 levels; with 15 degrees of freedom chi-squared exceeds 56.5
    # with probability 1e-6
    assert chi_squared(-kept_counts.diff(), torch.tensor(4 * MANY / 16)) < 56.5


def test_a_larger_p_drops_whatever_a_smaller_one_drops() -> None:
    masks = []
    for p in sorted([0.0, *DROPPED_LEVELS]):
        start()
        masks.append(kept(p, MANY))
    assert [
        bool((larger <= smaller).all()) for smaller, larger in zip(masks, masks[1:], strict=False)
    ] == [True] * 8


@pytest.mark.parametrize("p", [0.25, 0.5, 0.9])
def test_the_four_lanes_of_a_word_are_independent(p: float) -> None:
    words = kept(p, MANY, 4)
    patterns = torch.bincount((words * torch.tensor([8, 4, 2, 1])).sum(1), minlength=16)
    num_kept = torch.tensor([bin(pattern).count("1") for pattern in range(16)])
    rate = 1 - DROPPED_LEVELS[p] / 65536
    # with 15 degrees of freedom chi-squared exceeds 56.5 with probability 1e-6 (false alarm)
    assert chi_squared(patterns, MANY * rate**num_kept * (1 - rate) ** (4 - num_kept)) < 56.5


@pytest.mark.parametrize("p", [0.25, 0.5])
def test_elements_up_to_a_thousand_apart_are_uncorrelated(p: float) -> None:
    elements = standardised(kept(p, MANY), 1 - p)
    # padded, so that the end does not wrap round to the start
    spectrum = torch.fft.rfft(elements, n=2 * MANY)
    correlations = torch.fft.irfft(spectrum.abs().square(), n=2 * MANY)[1:1001] / math.sqrt(MANY)
    # the largest of 1000 at 6 standard deviations: false alarm 2e-6
    assert float(correlations.abs().max()) < 6


@pytest.mark.parametrize("p", [0.25, 0.5])
def test_rows_and_columns_are_independent(p: float) -> None:
    mask = kept(p, 1009, 997)
    # the largest of 508,536 pairs of rows (496,506 of columns) at 6.5 standard deviations: false
    # alarm 4e-5 each
    assert largest_correlation(mask, 1 - p) < 6.5
    assert largest_correlation(mask.t(), 1 - p) < 6.5


def masks_of_layers(p: float) -> Tensor:
    return torch.stack([kept(p, 20_011) for _ in range(64)])


def masks_of_streams(p: float, name: str) -> Tensor:
    masks = []
    for number in range(64):
        start(**{name: number})
        masks.append(kept(p, 20_011))
    return torch.stack(masks)


@pytest.mark.parametrize("p", [0.25, 0.5])
@pytest.mark.parametrize("of", ["layers", "update", "seed"])
def test_layers_updates_and_seeds_are_independent(of: str, p: float) -> None:
    result = masks_of_layers(p) if of == "layers" else masks_of_streams(p, of)
    # the largest of 2016 pairs at 6 standard deviations: false alarm 4e-6
    assert largest_correlation(result, 1 - p) < 6
    pairs = 2 * result[::2].int() + result[1::2].int()
    counts = torch.bincount(pairs.flatten(), minlength=4)
    rates = torch.tensor([p * p, p * (1 - p), (1 - p) * p, (1 - p) * (1 - p)]).double()
    # with 3 degrees of freedom chi-squared exceeds 30.7 with probability 1e-6 (false alarm)
    assert chi_squared(counts, pairs.numel() * rates) < 30.7


def test_a_mask_is_a_function_of_seed_update_and_layer() -> None:
    result = []
    for drawn_before in (0, 7):
        torch.randn(drawn_before)
        masks = []
        for update, seed in ((5, 3), (6, 3), (5, 4)):
            start(update, seed)
            masks += [tuple(kept(0.5, 13, 9).flatten().tolist()) for _ in range(2)]
        result.append(masks)
    assert result[0] == result[1] and len({*result[0]}) == 6


def test_each_layer_reads_on_and_other_sizes_get_the_first_elements_of_a_longer_mask() -> None:
    one = kept(0.5, 5, 8).flatten()
    start()
    assert torch.equal(torch.cat([kept(0.5, 3, 8).flatten(), kept(0.5, 16)]), one)
    for size in (0, 1, 2, 3, 4, 5, 7, 8, 9, 13):
        start()
        assert torch.equal(kept(0.5, size), one[:size]), size


def test_a_single_number_is_kept_or_dropped() -> None:
    # all alike: false alarm 1e-19
    outputs = {Dropout(0.5)(torch.tensor(3.0)).item() for _ in range(64)}
    assert outputs == {0.0, 6.0}


def test_a_mask_goes_by_index_not_by_how_the_input_lies_in_memory() -> None:
    inputs = torch.randn(2, 3, 5, 7)
    start()
    expected = Dropout(0.5)(inputs)
    for other in (
        inputs.to(memory_format=torch.channels_last),
        inputs.transpose(0, 3).contiguous().transpose(0, 3),
    ):
        start()
        assert torch.equal(Dropout(0.5)(other), expected)


@pytest.mark.parametrize("p", [0.25, 0.9])
def test_gradient_is_the_mask_times_the_scale(p: float) -> None:
    inputs, upstream = torch.randn(13, 7, requires_grad=True), torch.randn(13, 7)
    start()
    output = Dropout(p)(inputs)
    output.backward(upstream)
    scale = 65536 / (65536 - DROPPED_LEVELS[p])
    assert inputs.grad is not None
    assert torch.equal(inputs.grad, torch.where(output != 0, upstream * scale, 0))


def test_evaluation_and_a_probability_of_zero_return_the_input_and_draw_nothing() -> None:
    inputs, before = torch.randn(5, 3), torch.get_rng_state()
    for layer in (Dropout(0.0), Dropout(0.5).eval()):
        assert layer(inputs) is inputs and torch.equal(torch.get_rng_state(), before)


def test_it_has_no_state_to_save_and_shows_its_probability() -> None:
    assert Dropout(0.3).state_dict() == {}
    assert repr(Dropout(0.3)) == "Dropout(p=0.3)"

"""Tests, intervals and predicted seeds of differences between runs."""

import math
import random
import sys

import pytest
from scipy import stats

from andiron import errors
from andiron_lab.seeds import differences
from andiron_lab.seeds.differences import by_sample, by_seed, holm, noise
from proofs import false_claims

A, B = [0.91, 0.93, 0.9, 0.92], [0.95, 0.92, 0.97, 0.94, 0.96]


def by(values, first=0):
    return dict(enumerate(values, first))


def test_t_limits_equal_scipy():
    for degrees in (1, 1.3, 2, 4, 5.7, 30, 333.3, 1000):
        limit = stats.t.ppf(1 - differences.ALPHA / 2, degrees)
        assert differences.t_limit(degrees) == pytest.approx(limit, rel=1e-10)  # of the series


def test_paired_and_unpaired_seeds_are_compared_as_scipy_does():
    welch, pooled = (stats.ttest_ind(B, A, equal_var=equal) for equal in (False, True))
    paired, wider = stats.ttest_rel(B[1:], A), max(welch, pooled, key=lambda test: test.pvalue)
    for difference, test, reference in (
        (by_seed(by(A), by(B)), "equal noise", wider),
        (by_seed(by(A), by(B[1:])), "paired by seed", paired),
        (by_seed(by(A), by(B[1:], 9)), "Welch", stats.ttest_ind(B[1:], A, equal_var=False)),
    ):
        assert difference.test == test
        assert difference.p == pytest.approx(reference.pvalue, rel=1e-10)
        assert difference.interval == pytest.approx(reference.confidence_interval(), rel=1e-10)
        assert difference.is_shown == (reference.pvalue <= 0.05)


def test_a_single_run_is_compared_by_the_noise_of_all_groups():
    others = [[0.1, 0.14], [0.2], [0.3, 0.31, math.nan]]
    deviation = math.sqrt((0.0008 + 0.00005) / 2)
    half = stats.t.ppf(0.975, 2) * deviation * math.sqrt(2)

    difference = by_seed({0: 0.5}, {1: 0.6}, others)

    assert noise(others) == pytest.approx((deviation, 2))
    assert (difference.test, difference.degrees) == ("noise of all groups", 2)
    assert difference.interval == pytest.approx((0.1 - half, 0.1 + half))


@pytest.mark.parametrize(
    ("a", "b", "numbers"),
    [
        ([0.5], [0.6], (1, 1)),
        ([0.5, 0.5], [0.6, 0.6], (2, 2)),  # accuracies on few samples repeat: no noise is known
        ([0.9, 0.9], [0.9, 0.9 + 1e-8], (2, 2)),  # float32
        ([0.5, math.nan, 0.52], [0.9, 0.91, 0.92], (2, 3)),
        ([0.5, 0.51], [math.inf, math.inf], (2, 0)),
        ([0.5, 0.51], [1e200, 1e201], (2, 0)),
        ([], [0.5, 0.51], (0, 2)),
    ],
)
def test_nothing_is_claimed_without_noise_or_with_diverged_runs(a, b, numbers):
    difference = by_seed(by(a), by(b))

    assert (difference.numbers, difference.p, difference.interval) == (numbers, 1.0, None)
    assert not difference.is_shown and difference.seeds_needed(0.01) is None
    assert math.isnan(difference.value) == (0 in numbers)


def test_equal_steps_between_pairs_leave_the_noise_between_seeds():
    difference = by_seed(by([0.9, 0.94, 0.92]), by([0.91, 0.95, 0.93]))  # 0.01 each, but rounded

    assert difference.test == "Welch" and not difference.is_shown


def test_samples_are_compared_by_mcnemar_or_paired_t():
    generator = random.Random(0)
    right = [[float(generator.random() < 0.9) for _ in range(300)] for _ in range(2)]
    better, worse = (sum(x - y == sign for x, y in zip(*right, strict=True)) for sign in (1, -1))
    losses = [[generator.expovariate(rate) for _ in range(200)] for rate in (1, 2)]
    steps = [y - x for x, y in zip(*losses, strict=True)]
    t_test = stats.ttest_1samp(steps, 0)

    by_right, by_loss = by_sample(*right), by_sample(*losses)

    assert by_right.test == "McNemar"
    assert by_right.p == pytest.approx(stats.binomtest(better, better + worse).pvalue)
    assert by_loss.test == "paired t" and t_test.pvalue <= by_loss.p < 0.01 and by_loss.is_shown
    low, high = t_test.confidence_interval()
    assert (by_loss.interval[0] < low) != (high < by_loss.interval[1])  # on the side of the tail
    assert by_loss.interval == pytest.approx((low, high), abs=0.03)
    assert by_sample(losses[0][:149], losses[1][:149]).test is None
    assert by_sample(losses[0], losses[0]).p == by_sample(right[0], right[0]).p == 1
    assert by_sample([1.0, math.nan], [1.0, 0.0]).numbers == (1, 2)


@pytest.mark.parametrize("kind", ["normal", "lognormal", "accuracy"])
@pytest.mark.parametrize("numbers", [(2, 5), (2, 20), (3, 12), (20, 3)])
def test_few_seeds_on_one_side_claim_no_more_than_many(numbers, kind):
    assert false_claims.seed_claims(1000, numbers, kind) <= 0.06


@pytest.mark.parametrize("kinds", false_claims.SAMPLE_KINDS.values(), ids=false_claims.SAMPLE_KINDS)
@pytest.mark.parametrize("number", [8, 30, 60, 150, 300])
def test_few_or_skewed_samples_claim_no_more_than_many(number, kinds):
    assert false_claims.sample_claims(400, number, kinds) <= 0.07  # two deviations above 5 %


def test_without_scipy_a_test_of_seeds_names_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    differences.library.cache_clear()
    differences.t_limit.cache_clear()
    with pytest.raises(errors.DataError, match=r"needs scipy: pip install andiron\[lab\]"):
        by_seed(by(A), by(B))
    assert by_seed({0: 0.5}, {1: 0.6}).test is None  # nothing is tested, so nothing is needed


def test_holm_corrects_several_comparisons():
    assert holm([]) == [] and holm([0.2]) == [0.2]
    assert holm([0.01, 0.9, 0.02, 0.5]) == pytest.approx([0.04, 1, 0.06, 1])


@pytest.mark.parametrize("is_paired", [False, True])
def test_claims_intervals_and_predicted_seeds_keep_their_rates(is_paired):
    draw = false_claims.simulated(random.Random(1), deviation=0.01, samples=360)

    counts = false_claims.counted(draw, 400, is_paired=is_paired)

    # 5 %, 95 % and 90 %, give or take 2 %: two standard deviations of 400 comparisons
    assert counts.claims <= 28 and 372 <= counts.covered
    assert len(counts.needed) == 400 and counts.found >= 352

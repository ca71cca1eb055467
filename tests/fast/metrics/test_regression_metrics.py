"""Metrics of values: scikit-learn's numbers, however the batches fall, and as exact far from 0 as
near it.
"""

import statistics
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron.metrics.regression import regression_errors
from andiron.metrics.tally import Tally
from andiron.outputs import IGNORED, RegressionOutput

METRICS = {
    regression_errors.MeanAbsoluteError: "mean_absolute_error",
    regression_errors.MeanSquaredError: "mean_squared_error",
    regression_errors.RootMeanSquaredError: "root_mean_squared_error",
    regression_errors.R2: "r2_score",
    regression_errors.ExplainedVariance: "explained_variance_score",
}
# both sides are float64 with some hundred additions of values within a factor of 10^3
ROUNDING = 1e-12


def item(output, targets):
    return RegressionOutput(torch.tensor(0.0), output, targets)


def draw(seed, samples, outputs, *, mean=0.0):
    """Values and targets that follow them, in float32."""
    stream = torch.Generator().manual_seed(seed)
    targets = torch.randn(samples, outputs, generator=stream) + mean
    return targets + 0.5 * torch.randn(samples, outputs, generator=stream) + 0.1, targets


def cut(samples, sizes):
    """Where batches of these sizes begin and end, as often as the samples go in."""
    bounds = [0]
    while bounds[-1] < samples:
        bounds.append(min(samples, bounds[-1] + sizes[(len(bounds) - 1) % len(sizes)]))
    return list(zip(bounds, bounds[1:], strict=False))


def measured(metric, output, targets, *, sizes=(7, 1, 12), order=None, close_after=(1, 3)):
    """The epoch's numbers, batches added in this order, and a window closed after some of them."""
    tally = Tally([metric])
    batches = cut(len(targets), sizes)
    for number, index in enumerate(order or range(len(batches))):
        begin, end = batches[index]
        tally.add(item(output[begin:end], targets[begin:end]))
        if number in close_after:
            tally.close_window()
    return tally.close_epoch()


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32), samples=st.integers(2, 80), outputs=st.integers(1, 3),
    data=st.data(),
)  # fmt: skip
def test_any_batches_in_any_order_come_to_scikit_learns_number(seed, samples, outputs, data):
    reference = pytest.importorskip("sklearn.metrics")
    output, targets = draw(seed, samples, outputs, mean=3.0)
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(cut(samples, sizes)))))
    close_after = data.draw(st.sets(st.integers(0, len(order))))

    for kind, name in METRICS.items():
        known = {"multioutput": "raw_values"}
        expected = getattr(reference, name)(
            targets.double().numpy(), output.double().numpy(), **known
        )
        where = {"sizes": sizes, "order": order, "close_after": close_after}
        value = measured(kind(name="m", average="none"), output, targets, **where)
        assert value == {
            f"m/output_{i}": pytest.approx(v, rel=1e-9, abs=ROUNDING)
            for i, v in enumerate(expected)
        }
        mean = measured(kind(name="m"), output, targets, **where)["m"]
        # few samples may lie close together
        assert mean == pytest.approx(expected.mean(), rel=1e-9, abs=ROUNDING)


def test_ignored_targets_of_an_output_do_not_count():
    reference = pytest.importorskip("sklearn.metrics")
    output, targets = draw(5, 40, 3, mean=3.0)
    known = torch.rand(40, 3, generator=torch.Generator().manual_seed(1)) > 0.3
    known[3:6] = False  # a whole batch
    marked = targets.masked_fill(~known, IGNORED)
    pairs = [
        (targets[counts, i].double().numpy(), output[counts, i].double().numpy())
        for i, counts in enumerate(known.T)
    ]
    for kind, name in METRICS.items():
        tally = Tally([kind(name="m", average="none")])
        for begin, end in ((0, 3), (3, 6), (6, 7), (7, 40)):
            batch = output[begin:end], marked[begin:end]
            tally.add(RegressionOutput(torch.tensor(0.0), *batch, has_ignored=True))
        assert tally.close_epoch() == {
            f"m/output_{i}": pytest.approx(getattr(reference, name)(*pair), abs=ROUNDING)
            for i, pair in enumerate(pairs)
        }
        tally.add(RegressionOutput(torch.tensor(0.0), output, marked[3:4].expand(40, 3), 0, True))
        assert tally.close_epoch() == {}


def exact(output, targets):
    """R2 and the explained variance in rational numbers."""
    pairs = [(Fraction(y), Fraction(y) - Fraction(x)) for x, y in zip(output, targets, strict=True)]
    values, differences = zip(*pairs, strict=True)
    total = statistics.pvariance(values) * len(values)
    residual, spread = (
        sum(e * e for e in differences),
        statistics.pvariance(differences) * len(differences),
    )
    return float(1 - residual / total), float(1 - spread / total)


@pytest.mark.parametrize("ratio, tolerance", [(1, 1e-15), (1e3, 1e-14), (1e6, 1e-11), (1e8, 1e-9)])
def test_far_from_zero_only_the_digits_of_the_batches_means_go(ratio, tolerance):
    output, targets = (values.double() + ratio for values in draw(3, 301, 1))
    expected = exact(output[:, 0].tolist(), targets[:, 0].tolist())

    values = measured(regression_errors.R2(), output, targets) | measured(
        regression_errors.ExplainedVariance(), output, targets
    )

    assert (values["r2"], values["explained_variance"]) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("kind", [regression_errors.R2, regression_errors.ExplainedVariance])
@pytest.mark.parametrize("constant", [0.1, 1e6 + 0.3])
def test_of_targets_that_are_all_the_same_nothing_is_said(kind, constant):
    targets = torch.full((20, 1), constant, dtype=torch.float64)
    assert measured(kind(), targets + torch.arange(20.0)[:, None], targets, sizes=(3, 7)) == {}


@pytest.mark.parametrize("kind", [regression_errors.R2, regression_errors.ExplainedVariance])
def test_an_output_with_constant_targets_has_no_value_nor_has_an_average(kind):
    output, targets = draw(1, 20, 2)
    targets[:, 0] = 0.1

    assert set(measured(kind(name="m", average="none"), output, targets)) == {"m/output_1"}
    assert measured(kind(name="m"), output, targets) == {}


def test_of_several_outputs_rmse_is_the_mean_of_their_roots():
    output, targets = torch.tensor([[1.0, 3.0], [1.0, 3.0]]), torch.zeros(2, 2)

    assert measured(regression_errors.RootMeanSquaredError(), output, targets, sizes=(1,)) == {
        "rmse": 2.0
    }  # and not sqrt(5)
    assert measured(regression_errors.MeanSquaredError(), output, targets, sizes=(1,)) == {
        "mse": 5.0
    }

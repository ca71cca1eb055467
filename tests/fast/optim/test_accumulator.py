"""Micro-batches make up one large batch."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import gradients
from andiron.optim import GradientsAccumulator
from andiron.optim.gradient_mean import divide
from refusals import message_of

SIZES = (5, 1, 7, 3, 2, 8, 4, 1)


def network(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def data(dtype=torch.float32):
    stream = torch.Generator().manual_seed(1)
    return torch.randn(sum(SIZES), 6, generator=stream).to(dtype), torch.randint(
        3, (sum(SIZES),), generator=stream
    )


def taken(model, inputs, targets):
    return gradients.backward(functional.cross_entropy(model(inputs), targets), model)


def accumulated(model, inputs, targets, weight=float):
    accumulator = GradientsAccumulator()
    for x, y in zip(inputs.split(SIZES), targets.split(SIZES), strict=True):
        accumulator.add(taken(model, x, y), weight(len(y)))
    return accumulator.mean()


@pytest.mark.parametrize(
    "weight", [float, int, lambda size: torch.tensor(float(size))], ids=["float", "int", "tensor"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_eight_micro_batches_of_uneven_size_equal_one_batch_to_rounding(dtype, weight):
    model = network(dtype)
    actual, expected = accumulated(model, *data(dtype), weight), taken(model, *data(dtype))
    assert [*actual] == [*expected]
    for name in expected:
        # sums of 31 terms of order 1, and a handful of roundings each to make a term
        bound = 64 * torch.finfo(dtype).eps
        torch.testing.assert_close(actual[name], expected[name], rtol=0, atol=bound)
    torch.testing.assert_close(actual.loss, expected.loss, rtol=64 * torch.finfo(dtype).eps, atol=0)


def test_the_mean_over_batches_is_not_the_mean_over_samples():
    model = network()
    right = accumulated(model, *data())
    equal = accumulated(model, *data(), weight=lambda size: 1)
    assert (right["0.weight"] - equal["0.weight"]).abs().max() > 0.01


def test_one_micro_batch_comes_back_as_it_was():
    model, accumulator = network(), GradientsAccumulator()
    given = taken(model, *data())
    accumulator.add(given, 3)
    assert accumulator.mean() is given


def test_a_micro_batch_adds_nothing_to_parameters_it_does_not_reach():
    model, accumulator = network(torch.float64), GradientsAccumulator()
    inputs, targets = data(torch.float64)
    hidden = torch.zeros(4, 5, dtype=torch.float64)
    accumulator.add(taken(model, inputs[:6], targets[:6]), 6)
    accumulator.add(
        gradients.backward(functional.cross_entropy(model[2](hidden), targets[6:10]), model), 4
    )
    result = accumulator.mean()
    reached = taken(model, inputs[:6], targets[:6])
    torch.testing.assert_close(result["0.weight"], reached["0.weight"] * 6 / 10, rtol=1e-14, atol=0)

    accumulator.add(
        gradients.backward(functional.cross_entropy(model[2](hidden), targets[:4]), model), 4
    )
    accumulator.add(
        gradients.backward(functional.cross_entropy(model[2](hidden), targets[4:8]), model), 4
    )
    assert "0.weight" not in accumulator.mean()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dividing_by_a_power_of_two_has_the_bits_of_a_division_and_finds_nan(dtype):
    stream = torch.Generator().manual_seed(2)
    model = network()
    values = torch.randn(1000, generator=stream) * 10 ** (-8 * torch.rand(1000, generator=stream))
    for bad in (False, True):
        loss = torch.tensor(float("nan") if bad else 3.0)
        mean = gradients.Gradients({"0.weight": values.to(dtype)}, model, loss)
        expected = mean["0.weight"] / 64
        divide(mean, 64)
        assert mean["0.weight"].equal(expected) and mean["0.weight"].dtype == dtype
        assert bool(mean.found_inf) is bad is not gradients.all_finite(mean)
        assert loss.isnan().item() is bad and (bad or float(mean.loss) == 3.0 / 64)


@pytest.mark.parametrize("divisor", [3, 48.0, torch.tensor(64.0)])
def test_other_divisions_leave_the_look_for_nan_to_the_caller(divisor):
    mean = gradients.Gradients({"0.weight": torch.ones(4)}, network(), torch.tensor(1.0))
    divide(mean, divisor)
    assert mean.found_inf is None
    assert mean["0.weight"].equal(torch.ones(4) / divisor) and mean.loss == 1.0 / divisor


@pytest.mark.parametrize("weight", [0, torch.tensor(0.0)], ids=["int", "tensor"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_micro_batch_that_counts_nothing_may_be_nan(place, weight):
    model, accumulator = network(), GradientsAccumulator()
    inputs, targets = data()
    steps = [(taken(model, x, y), 1) for x, y in zip(inputs.split(16), targets.split(16))]
    empty = gradients.backward(model(inputs).sum() * math.nan, model)
    steps.insert(place, (empty, weight))
    for step in steps:
        accumulator.add(*step)
    mean, one, other = accumulator.mean(), *(taken(model, x, y) for x, y in zip(
        inputs.split(16), targets.split(16)
    ))  # fmt: skip
    for name in mean:
        assert torch.equal(mean[name], (one[name] + other[name]) / 2)
    assert torch.equal(mean.loss, (one.loss + other.loss) / 2)


def test_the_next_mean_starts_anew():
    model, accumulator = network(), GradientsAccumulator()
    for _ in range(2):
        for x, y in zip(data()[0].split(SIZES), data()[1].split(SIZES), strict=True):
            accumulator.add(taken(model, x, y), len(y))
        result = accumulator.mean()
        assert torch.equal(result["0.weight"], accumulated(model, *data(), weight=int)["0.weight"])


def test_there_is_no_mean_of_nothing():
    assert "no micro-batch was added" in message_of(ValueError, GradientsAccumulator().mean)

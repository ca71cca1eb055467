"""Norms, clipping, finiteness and loss scaling of gradients."""

import math

import pytest
import torch
from tensor_bits import same
from torch import nn
from torch.nn import functional

from andiron import gradients
from andiron.gradients import Gradients


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def loss_of(model, size=7):
    stream = torch.Generator().manual_seed(3)
    inputs, targets = (
        torch.randn(size, 6, generator=stream),
        torch.randint(3, (size,), generator=stream),
    )
    return functional.cross_entropy(model(inputs), targets)


def taken(model=None):
    model = model or network()
    return gradients.backward(loss_of(model), model)


def test_the_loss_is_known_and_holds_no_graph():
    model = network()
    loss = loss_of(model)
    result = gradients.backward(loss, model)
    assert torch.equal(result.loss, loss) and not result.loss.requires_grad
    assert torch.equal(result.take(model[0]).loss, loss)


def test_the_global_norm_is_that_of_all_gradients_as_one_vector():
    result = taken()
    joint = torch.cat([tensor.flatten() for tensor in result.values()]).double().norm()
    # a float32 sum of 53 squares, each step rounded by at most 2**-24
    torch.testing.assert_close(
        gradients.global_norm(result).double(), joint, rtol=53 * 2**-24, atol=0
    )
    assert gradients.global_norm({}) == 0


@pytest.mark.parametrize("max_norm", [1e-3, 0.2])
def test_clipping_by_the_global_norm_gives_torchs_bits(max_norm):
    model = network()
    loss_of(model).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    result = gradients.clip_by_global_norm(taken(), max_norm)
    assert same(dict(result), expected)
    assert gradients.global_norm(result) < max_norm * (1 + 1e-6)


@pytest.mark.parametrize("clip", [gradients.clip_by_global_norm, gradients.clip_by_norm])
def test_clipping_keeps_float16_whose_norm_float16_cannot_hold(clip):
    values = {"half": torch.full((400,), 6e4, dtype=torch.float16), "single": torch.ones(2)}
    clipped = clip(Gradients(values, network()), 1.0)
    assert clipped["half"].dtype == torch.float16
    assert torch.equal(clipped["half"], torch.full((400,), 0.05, dtype=torch.float16))
    assert gradients.norms([values["half"]])[0] == pytest.approx(1.2e6, rel=1e-3)
    norm = gradients.global_norm(values)
    assert norm.dtype == torch.float32 and torch.isclose(norm, torch.tensor(1.2e6), rtol=1e-3)


def test_clipping_by_value_gives_torchs_bits():
    model = network()
    loss_of(model).backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
    assert same(
        dict(gradients.clip_by_value(taken(), 0.05)),
        {name: p.grad for name, p in model.named_parameters()},
    )


def test_clipping_by_norm_holds_for_each_tensor_and_keeps_its_direction():
    actual, before = gradients.clip_by_norm(taken(), 0.1), taken()
    for name, tensor in actual.items():
        assert tensor.norm() <= 0.1 * (1 + 1e-6)
        # parallel, to the rounding of one product in float32 for each element
        torch.testing.assert_close(
            tensor / tensor.norm(), before[name] / before[name].norm(), rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize(
    "clip", [gradients.clip_by_global_norm, gradients.clip_by_norm, gradients.clip_by_value]
)
def test_small_gradients_stay_and_thresholds_are_positive(clip):
    result = taken()
    assert same(dict(clip(result, 1e3)), dict(taken()))
    assert dict(clip(Gradients({}, network()), 1.0)) == {}
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(
            ValueError, match="should be greater than 0; leave clipping out to have none"
        ):
            clip(result, bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["0.weight", "2.bias", "loss"])
def test_one_non_finite_value_is_found_anywhere(bad, place):
    result = taken()
    assert gradients.all_finite(result) and gradients.not_finite(result) == []
    before = {name: tensor.clone() for name, tensor in result.items()}
    (result.loss if place == "loss" else result[place].view(-1)[-1:]).fill_(bad)
    assert not gradients.all_finite(result)
    assert gradients.not_finite(result) == ([] if place == "loss" else [place])
    assert gradients.all_finite(taken())  # the next is judged anew
    # and nothing was written
    assert all(torch.equal(result[name], before[name]) for name in before if name != place)


def test_gradients_as_large_as_a_float_can_be_are_finite_numbers():
    result = taken()
    result["0.weight"].fill_(3e38)
    assert gradients.all_finite(result)
    assert gradients.all_finite(Gradients({}, network()))


def test_the_check_reads_one_value(host_reads):
    result = taken()
    with host_reads() as reads:
        gradients.all_finite(result)
    assert reads.number == 1


@pytest.mark.parametrize("scale", [2.0**16, 0.25])
def test_a_scale_that_is_a_power_of_two_changes_no_bit(scale):
    with gradients.loss_scaled(scale):
        result = taken()
    assert same(dict(result), dict(taken())) and torch.equal(result.loss, taken().loss)


def test_an_overflowing_scale_shows_in_the_gradients_only():
    with gradients.loss_scaled(1e39):
        result = taken()
    assert not gradients.all_finite(result) and torch.isfinite(result.loss)
    assert gradients.all_finite(taken())


def test_backward_does_not_run_in_autocast():
    expected, model = network(), network()
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(expected)
    loss.backward()
    with torch.autocast("cpu", torch.bfloat16):
        result = gradients.backward(loss_of(model), model)
        assert torch.is_autocast_enabled("cpu")
    assert same(
        dict(result), {name: parameter.grad for name, parameter in expected.named_parameters()}
    )

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
    found = gradients.backward(loss, model)
    assert torch.equal(found.loss, loss) and not found.loss.requires_grad
    assert torch.equal(found.take(model[0]).loss, loss)


def test_a_gradient_that_is_missing_is_not_one_of_zeros():
    model = network()
    found = gradients.backward(model[2](torch.zeros(4, 5)).sum(), model)
    assert found.get("0.weight") is None and "0.weight" not in found
    assert torch.equal(found.get("2.weight"), torch.zeros(3, 5)) and len(found) == 2


def test_the_global_norm_is_that_of_all_gradients_as_one_vector():
    found = taken()
    joint = torch.cat([tensor.flatten() for tensor in found.values()]).double().norm()
    # a float32 sum of 53 squares, each step rounded by at most 2**-24
    torch.testing.assert_close(
        gradients.global_norm(found).double(), joint, rtol=53 * 2**-24, atol=0
    )
    assert gradients.global_norm({}) == 0


@pytest.mark.parametrize("max_norm", [1e-3, 0.2])
def test_clipping_by_the_global_norm_gives_torchs_bits(max_norm):
    model = network()
    loss_of(model).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    found = gradients.clip_by_global_norm(taken(), max_norm)
    assert same(dict(found), expected)
    assert gradients.global_norm(found) < max_norm * (1 + 1e-6)


def test_clipping_by_value_gives_torchs_bits():
    model = network()
    loss_of(model).backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
    assert same(
        dict(gradients.clip_by_value(taken(), 0.05)),
        {name: p.grad for name, p in model.named_parameters()},
    )


def test_clipping_by_norm_holds_for_each_tensor_and_keeps_its_direction():
    found, before = gradients.clip_by_norm(taken(), 0.1), taken()
    for name, tensor in found.items():
        assert tensor.norm() <= 0.1 * (1 + 1e-6)
        # parallel, to the rounding of one product in float32 for each element
        torch.testing.assert_close(
            tensor / tensor.norm(), before[name] / before[name].norm(), rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize(
    "clip", [gradients.clip_by_global_norm, gradients.clip_by_norm, gradients.clip_by_value]
)
def test_small_gradients_stay_and_thresholds_are_positive(clip):
    found = taken()
    assert same(dict(clip(found, 1e3)), dict(taken()))
    assert dict(clip(Gradients({}, network()), 1.0)) == {}
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(
            ValueError, match="should be greater than 0; leave clipping out to have none"
        ):
            clip(found, bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["0.weight", "2.bias", "loss"])
def test_one_non_finite_value_is_found_anywhere(bad, place):
    found = taken()
    assert gradients.all_finite(found) and gradients.not_finite(found) == []
    before = {name: tensor.clone() for name, tensor in found.items()}
    (found.loss if place == "loss" else found[place].view(-1)[-1:]).fill_(bad)
    assert not gradients.all_finite(found)
    assert gradients.not_finite(found) == ([] if place == "loss" else [place])
    assert gradients.all_finite(taken())  # the next is judged anew
    # and nothing was written
    assert all(torch.equal(found[name], before[name]) for name in before if name != place)


def test_gradients_as_large_as_a_float_can_be_are_finite_numbers():
    found = taken()
    found["0.weight"].fill_(3e38)
    assert gradients.all_finite(found)
    assert gradients.all_finite(Gradients({}, network()))


def test_the_check_reads_one_value(host_reads):
    found = taken()
    with host_reads() as reads:
        gradients.all_finite(found)
    assert reads.number == 1


@pytest.mark.parametrize("scale", [2.0**16, 0.25])
def test_a_scale_that_is_a_power_of_two_changes_no_bit(scale):
    with gradients.loss_scaled(scale):
        found = taken()
    assert same(dict(found), dict(taken())) and torch.equal(found.loss, taken().loss)


def test_an_overflowing_scale_shows_in_the_gradients_only():
    with gradients.loss_scaled(1e39):
        found = taken()
    assert not gradients.all_finite(found) and torch.isfinite(found.loss)
    assert gradients.all_finite(taken())


def test_backward_does_not_run_in_autocast():
    expected, model = network(), network()
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(expected)
    loss.backward()
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients.backward(loss_of(model), model)
        assert torch.is_autocast_enabled("cpu")
    assert same(
        dict(found), {name: parameter.grad for name, parameter in expected.named_parameters()}
    )

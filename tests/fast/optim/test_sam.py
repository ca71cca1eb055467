"""Sharpness-aware minimisation beside the algorithm by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import gradients
from andiron.optim import Optimizer
from andiron.optim.model_weights import perturbed

RHO = 0.05


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def loss_of(model, size=7):
    stream = torch.Generator().manual_seed(size)
    return functional.cross_entropy(
        model(torch.randn(size, 6, generator=stream)), torch.randint(3, (size,), generator=stream)
    )


def test_an_update_equals_the_algorithm_by_hand():
    model, expected = network(), network()
    optimizer, plain = (
        Optimizer(torch.optim.SGD, model),
        torch.optim.SGD(expected.parameters(), lr=0.1, fused=True),
    )
    for size in (7, 3, 5):
        with perturbed(model, gradients.backward(loss_of(model, size), model), RHO):
            result = gradients.backward(loss_of(model, size), model)
        optimizer.step(0.1, model, result)

        found_first = torch.autograd.grad(loss_of(expected, size), [*expected.parameters()])
        norm = torch.stack([gradient.norm() for gradient in found_first]).norm()
        kept = [parameter.detach().clone() for parameter in expected.parameters()]
        with torch.no_grad():
            for parameter, gradient in zip(expected.parameters(), found_first, strict=True):
                parameter += gradient * (RHO / (norm + 1e-12))
        plain.zero_grad()
        loss_of(expected, size).backward()
        with torch.no_grad():
            for parameter, before in zip(expected.parameters(), kept, strict=True):
                parameter.copy_(before)
        plain.step()
    assert all(
        torch.equal(one, other)
        for one, other in zip(model.parameters(), expected.parameters(), strict=True)
    )


def test_the_weights_are_put_back_bit_for_bit_even_after_an_error():
    model = network()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    result = gradients.backward(loss_of(model), model)
    with pytest.raises(KeyboardInterrupt), perturbed(model, result, RHO):
        moved = torch.cat(
            [(p - b).flatten() for p, b in zip(model.parameters(), before, strict=True)]
        )
        # float32 weights moved and subtracted again
        assert moved.norm().item() == pytest.approx(RHO, rel=1e-5)
        raise KeyboardInterrupt
    assert all(
        torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True)
    )


def test_gradients_of_zeros_move_nothing():
    model = network()
    result = gradients.backward(loss_of(model), model)
    zeros = result.replaced({name: torch.zeros_like(tensor) for name, tensor in result.items()})
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with perturbed(model, zeros, RHO):
        assert all(
            torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True)
        )

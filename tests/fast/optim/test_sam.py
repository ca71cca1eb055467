"""Sharpness-aware minimisation beside the algorithm by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import gradients
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

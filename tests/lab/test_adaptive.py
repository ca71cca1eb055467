"""Adan and LAMB against their papers' formulas, one tensor at a time in float64."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from andiron import gradients
from andiron.gradients import Gradients
from andiron.optim import Optimizer
from andiron_lab.optim import Adan, Lamb
from refusals import message_of

# 40 steps of float64 arithmetic in another order
CLOSE = {"rtol": 1e-11, "atol": 1e-13}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def losses(model: nn.Module, update: int) -> Tensor:
    generator = torch.Generator().manual_seed(update)
    inputs = torch.randn(4 + update % 3, 5, generator=generator, dtype=torch.float64)
    return model(inputs).square().mean() + model(inputs).sum() / 7


def adan(weight: Tensor, grads: list[Tensor], lr: float, decay: float) -> Tensor:
    """Algorithm 1, with 1 - beta_i as the paper's betas, and the authors' bias correction."""
    beta1, beta2, beta3, eps = 0.02, 0.08, 0.01, 1e-8
    m, v, n = torch.zeros(3, *weight.shape, dtype=torch.float64)
    previous = grads[0]
    for k, g in enumerate(grads, start=1):
        m = (1 - beta1) * m + beta1 * g
        v = (1 - beta2) * v + beta2 * (g - previous)
        n = (1 - beta3) * n + beta3 * (g + (1 - beta2) * (g - previous)) ** 2
        corrected = [of / (1 - (1 - b) ** k) for of, b in ((m, beta1), (v, beta2), (n, beta3))]
        eta = lr / (corrected[2].sqrt() + eps)
        weight = (weight - eta * (corrected[0] + (1 - beta2) * corrected[1])) / (1 + decay * lr)
        previous = g
    return weight


def lamb(weight: Tensor, grads: list[Tensor], lr: float, decay: float) -> Tensor:
    """Algorithm 2 with phi(z) = z."""
    beta1, beta2, eps = 0.9, 0.999, 1e-6
    m, v = torch.zeros(2, *weight.shape, dtype=torch.float64)
    for t, g in enumerate(grads, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        r = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps) + decay * weight
        weight = weight - lr * weight.norm() / r.norm() * r
    return weight


@pytest.mark.parametrize("kind, reference, options", [
    (Adan, adan, {"weight_decay": 0.02}),
    (Adan, adan, {"weight_decay": 0.0}),
    (Lamb, lamb, {"weight_decay": 0.01}),
    (Lamb, lamb, {"weight_decay": 0.0, "always_adapt": True}),
])  # fmt: skip
def test_40_updates_equal_the_papers_algorithm(
    kind: type[torch.optim.Optimizer], reference: Any, options: dict[str, Any]
) -> None:
    model = network()
    start = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    optimizer = Optimizer(kind, model, **options)
    given: list[Gradients] = []
    for update in range(40):
        given.append(gradients.backward(losses(model, update), model))
        optimizer.step(0.01, model, given[-1])
    for name, parameter in model.named_parameters():
        grads = [value[name] for value in given]
        expected = reference(start[name], grads, 0.01, options["weight_decay"])
        torch.testing.assert_close(parameter.detach(), expected, **CLOSE)
        assert not torch.equal(parameter, start[name])


def test_lamb_without_weight_decay_is_adam_unless_it_always_adapts() -> None:
    def trained(kind: type[torch.optim.Optimizer], **options: Any) -> list[Tensor]:
        model = network()
        optimizer = Optimizer(kind, model, eps=1e-6, **options)
        for update in range(10):
            optimizer.step(0.01, model, gradients.backward(losses(model, update), model))
        return list(model.parameters())

    torch.testing.assert_close(trained(Lamb, weight_decay=0.0), trained(torch.optim.Adam), **CLOSE)
    with pytest.raises(AssertionError):
        adapted = trained(Lamb, weight_decay=0.0, always_adapt=True)
        torch.testing.assert_close(adapted, trained(torch.optim.Adam), **CLOSE)


def test_lamb_steps_from_zero_weights_and_stays_at_zero_gradients() -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = Optimizer(Lamb, model)
    optimizer.step(0.1, model, Gradients({"weight": torch.zeros(1, 2)}, model))
    assert torch.equal(model.weight, torch.zeros(1, 2))
    optimizer.step(0.1, model, Gradients({"weight": torch.ones(1, 2)}, model))
    assert torch.isfinite(model.weight).all() and (model.weight < 0).all()


@pytest.mark.parametrize("kind, options, said", [
    (Adan, {"betas": (0.9, 0.9, 1.0)}, "betas=(0.9, 0.9, 1.0): should be 3 numbers from 0 to"),
    (Adan, {"eps": -1e-8}, "eps=-1e-08: should be at least 0"),
    (Lamb, {"betas": (0.9, 1.0)}, "betas=(0.9, 1.0): should be 2 numbers from 0 to below 1"),
    (Lamb, {"weight_decay": float("nan")}, "weight_decay=nan: should be at least 0"),
])  # fmt: skip
def test_options_out_of_range_are_refused(kind: Any, options: dict[str, Any], said: str) -> None:
    assert said in message_of(ValueError, Optimizer, kind, network(), **options)


def test_complex_parameters_are_named_in_the_refusal() -> None:
    model = network()
    model.register_parameter("phase", nn.Parameter(torch.zeros(2, dtype=torch.complex64)))
    with pytest.raises(ValueError, match=r"Lamb does not take 'phase' \[2\]; give them to another"):
        Optimizer(Lamb, model)

"""Sharpness-aware minimisation: the gradients of the worst weights near by, for any optimizer."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from andiron import gradients
from andiron.gradients import Gradients


@contextmanager
def perturbed(model: nn.Module, ascent: Gradients, rho: float) -> Iterator[None]:
    """Within it `model` is at w + rho * g / ||g||, with g the gradients in `ascent`; afterwards at w, bit for bit.

    Gradients taken there, and stepped with from w, are those of sharpness-aware minimisation.
    Source: Foret et al. 2021, arXiv:2010.01412, equation 2 and algorithm 1.
    """
    parameters = dict(model.named_parameters())
    moved: list[Tensor] = [parameters[name] for name in ascent]
    kept = [parameter.detach().clone() for parameter in moved]
    scale = rho / (
        gradients.global_norm(ascent) + 1e-12
    )  # 1e-12: gradients of zeros are no direction
    with torch.no_grad():
        torch._foreach_add_(moved, list(torch._foreach_mul(list(ascent.values()), scale)))
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(moved, kept)

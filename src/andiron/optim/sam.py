"""Sharpness-aware minimisation: gradients at the worst weights nearby, for any optimizer."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from andiron import gradients
from andiron.gradients import Gradients


@contextmanager
def perturbed(model: nn.Module, ascent: Gradients, rho: float) -> Iterator[None]:
    """A context with `model` at w + rho * g / ||g||, g = `ascent`; on exit at w, bit for bit.

    The gradients of SAM are those computed inside, applied at w.
    Source: Foret et al. 2021, arXiv:2010.01412, equation 2 and algorithm 1.
    """
    parameters = dict(model.named_parameters())
    moved: list[Tensor] = [parameters[name] for name in ascent]
    before = [parameter.detach().clone() for parameter in moved]
    # 1e-12: gradients of zeros have no direction
    scale = rho / (gradients.global_norm(ascent) + 1e-12)
    with torch.no_grad():
        torch._foreach_add_(moved, list(torch._foreach_mul(list(ascent.values()), scale)))
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(moved, before)

"""Components of a user's own that `proofs/rank_cases.py` trains."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from andiron.models import MLP


class Langevin(torch.optim.Optimizer):
    """Gradient descent with noise: it draws from torch's default generator.

    Source: Welling & Teh 2011, "Bayesian learning via stochastic gradient Langevin dynamics".
    """

    def __init__(self, params: Any, lr: float):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step; the noise has a thousandth of its usual variance."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    noise = torch.randn_like(parameter) * (2e-3 * group["lr"]) ** 0.5
                    parameter.sub_(parameter.grad, alpha=group["lr"]).add_(noise)


class Holed(nn.Module):
    """An MLP whose outputs for some pictures are NaN, in training."""

    def __init__(self, input_shape: Sequence[int], num_outputs: int, **options: Any):
        super().__init__()
        self.mlp = MLP(input_shape, num_outputs, **options)

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [samples, num_outputs]."""
        outputs: Tensor = self.mlp(inputs)
        is_hole = (inputs.flatten(1).sum(dim=1) * 1e3).round() % 31 == 0
        return torch.where(is_hole[:, None] & self.training, torch.nan, outputs)

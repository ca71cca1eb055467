"""Adan and LAMB, which torch.optim lacks, with the interface of its classes.

>>> from andiron.optim.optimizer import Optimizer
>>> optimizer = Optimizer(Lamb, torch.nn.Linear(3, 1), weight_decay=0.1)
>>> optimizer.options["betas"]
(0.9, 0.999)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from andiron.plain import private_torch
from andiron.ranges import Fraction, NonNegative

Options = dict[str, Any]
Tensors = list[Tensor]
Params = Iterable[Tensor] | Iterable[Options]
Closure = Callable[[], Tensor]
FORMER = "andiron.optim.own.adaptive"  # the module that checkpoints and records name


class Adaptive(torch.optim.Optimizer, ABC):
    """Steps by running means of the gradients; abstract."""

    slots: tuple[str, ...]  # the running means of a parameter, each with a beta

    def __init__(self, params: Params, options: Options):
        super().__init__(params, options)
        for group in self.param_groups:
            betas = group["betas"]
            if len(betas) != len(self.slots) or not all(0 <= beta < 1 for beta in betas):
                raise ValueError(
                    f"betas={betas}: should be {len(self.slots)} numbers from 0 to below 1"
                )
            for name in ("lr", "eps", "weight_decay"):
                if not group[name] >= 0:
                    raise ValueError(f"{name}={group[name]}: should be at least 0")
            if any(parameter.is_complex() for parameter in group["params"]):
                raise ValueError(
                    "complex parameters are not supported; use torch.optim.Adam for them"
                )

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Tensor | None:  # type: ignore[override]
        """Steps every parameter that has a gradient; returns the loss of `closure`."""
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            weights = [parameter for parameter in group["params"] if parameter.grad is not None]
            states = [self.state[parameter] for parameter in weights]
            for parameter, state in zip(weights, states):
                for slot in self.slots:
                    if slot not in state:
                        state[slot] = torch.zeros_like(parameter)
                state["step"] = state.get("step", 0) + 1
            slot_tensors = ([state[slot] for state in states] for slot in self.slots)
            grads = [parameter.grad for parameter in weights]
            self._update(group, states, weights, grads, *slot_tensors)
        return loss

    @abstractmethod
    def _update(
        self, group: Options, states: list[Options], weights: Tensors, grads: Tensors,
        *slots: Tensors,
    ) -> None:  # fmt: skip
        """Steps the weights of a group by their states, gradients, and tensors of each slot."""


class Adan(Adaptive):
    """Adaptive Nesterov momentum, with b1, b2, b3 = betas and the gradient g_t of step t.

    m = b1 m + (1 - b1) g_t;  v = b2 v + (1 - b2) (g_t - g_{t-1})
    n = b3 n + (1 - b3) (g_t + b2 (g_t - g_{t-1}))^2
    w = (w - lr (m' + b2 v') / (sqrt(n') + eps)) / (1 + lr weight_decay)

    g_0 = g_1. m', v' and n' are m, v and n divided by 1 - b^t, as in the authors' code.
    Raises: ValueError for an option out of range, or complex parameters.
    Source: Xie et al. 2022, arXiv:2208.06677, algorithm 1, whose betas are 1 - b.
    """

    __module__ = FORMER
    slots = ("exp_avg", "exp_avg_diff", "exp_avg_sq")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: Sequence[Fraction] = (0.98, 0.92, 0.99),
        eps: NonNegative = 1e-8,
        weight_decay: NonNegative = 0.0,
    ):
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    def _update(
        self, group: Options, states: list[Options], weights: Tensors, grads: Tensors,
        *slots: Tensors,
    ) -> None:  # fmt: skip
        means, mean_differences, mean_squares = slots
        lr, (b1, b2, b3) = group["lr"], group["betas"]
        for state, grad in zip(states, grads):
            state.setdefault("previous_grad", grad.clone())
        previous = [state["previous_grad"] for state in states]
        differences = private_torch.foreach_sub(grads, previous)
        private_torch.foreach_copy_(previous, grads)
        private_torch.foreach_lerp_(means, grads, 1 - b1)
        private_torch.foreach_lerp_(mean_differences, list(differences), 1 - b2)
        ahead = private_torch.foreach_add(grads, list(differences), alpha=b2)
        roots = _roots(mean_squares, list(ahead), b3, group["eps"], states)
        scales = [-lr / (1 - b1 ** state["step"]) for state in states]
        private_torch.foreach_addcdiv_(weights, means, roots, scales)
        scales = [-lr * b2 / (1 - b2 ** state["step"]) for state in states]
        private_torch.foreach_addcdiv_(weights, mean_differences, roots, scales)
        private_torch.foreach_div_(weights, 1 + lr * group["weight_decay"])


class Lamb(Adaptive):
    """Adam with a step proportional to the norm of each tensor, for large batches.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
    r = m' / (sqrt(v') + eps) + weight_decay w;  w = w - lr |w| / |r| r

    m' and v' are m and v divided by 1 - b^t. |w| / |r| is 1 if either norm is 0. As in the
    authors' code, it is also 1 without weight decay (biases, norms), unless `always_adapt`.
    Raises: ValueError for an option out of range, or complex parameters.
    Source: You et al. 2020, arXiv:1904.00962, algorithm 2, with phi(z) = z.
    """

    __module__ = FORMER
    slots = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: Sequence[Fraction] = (0.9, 0.999),
        eps: NonNegative = 1e-6,
        weight_decay: NonNegative = 0.01,
        always_adapt: bool = False,
    ):
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options | {"always_adapt": always_adapt})

    def _update(
        self, group: Options, states: list[Options], weights: Tensors, grads: Tensors,
        *slots: Tensors,
    ) -> None:  # fmt: skip
        means, mean_squares = slots
        b1, b2 = group["betas"]
        private_torch.foreach_lerp_(means, grads, 1 - b1)
        roots = _roots(mean_squares, grads, b2, group["eps"], states)
        updates = list(private_torch.foreach_div(means, roots))
        private_torch.foreach_div_(updates, [1 - b1 ** state["step"] for state in states])
        private_torch.foreach_add_(updates, weights, alpha=group["weight_decay"])
        if group["weight_decay"] or group["always_adapt"]:
            norms = zip(private_torch.foreach_norm(weights), private_torch.foreach_norm(updates))
            ratios = [torch.where((w > 0) & (r > 0), w / r, 1.0) for w, r in norms]
            private_torch.foreach_mul_(updates, ratios)
        private_torch.foreach_add_(weights, updates, alpha=-group["lr"])


def _roots(
    mean_squares: Tensors, grads: Tensors, beta: float, eps: float, states: list[Options]
) -> Tensors:
    """sqrt(n') + eps, after `grads` are counted in the running means of squares n."""
    private_torch.foreach_mul_(mean_squares, beta)
    private_torch.foreach_addcmul_(mean_squares, grads, grads, 1 - beta)
    roots = list(private_torch.foreach_sqrt(mean_squares))
    private_torch.foreach_div_(roots, [math.sqrt(1 - beta ** state["step"]) for state in states])
    private_torch.foreach_add_(roots, eps)
    return roots

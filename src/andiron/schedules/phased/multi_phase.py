"""Schedules of several phases: one cycle, warm restarts, and warm-up, stable, decay."""

from __future__ import annotations  # help() shows them as they stand

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from andiron.ranges import Count, Horizon, NonNegative, Positive, Probability, Span, checked
from andiron.schedules.single_curve import check_minimum

# the remaining share of the distance between two values after the share `done` of the time
LEFT: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "sqrt": lambda done: 1 - math.sqrt(done),
}


@checked
@dataclass(frozen=True)
class OneCycle:
    """Rises to max_lr in the first part of the run, then falls to almost 0.

    With T = num_updates, p = warmup_fraction * T - 1, a = max_lr / initial_divisor and
    b = a / final_divisor: lr(t) = max_lr + (a - max_lr) * f(t / p) while t <= p, then
    b + (max_lr - b) * f((t - p) / (T - 1 - p)), and lr(T - 1) for t >= T;
    f(x) = (1 + cos(pi * x)) / 2, or 1 - x if shape is linear.
    Source: Smith & Topin 2018, arXiv:1708.07120; defaults and cosine as in torch's
    OneCycleLR.
    """

    max_lr: Positive
    num_updates: Horizon
    warmup_fraction: Probability = 0.3
    initial_divisor: Positive = 25.0
    final_divisor: Positive = 1e4
    shape: Literal["cosine", "linear"] = "cosine"

    @property
    def peak(self) -> float:
        return self.max_lr

    def __call__(self, updates: int) -> float:
        last = self.num_updates - 1
        peak = self.warmup_fraction * self.num_updates - 1
        t = min(updates, last)
        initial_lr = self.max_lr / self.initial_divisor
        if t <= peak:
            done = t / peak if peak else 1.0
            return _between(initial_lr, self.max_lr, done=done, shape=self.shape)
        final_lr = initial_lr / self.final_divisor
        return _between(self.max_lr, final_lr, done=(t - peak) / (last - peak), shape=self.shape)

    def length_warning(self, num_updates: int) -> str | None:
        """A warning if the cycle has no update but its last."""
        if self.num_updates > 1:
            return None
        return f"num_updates=1: its one learning rate is {self(0):g}, the end of the cycle; give 2"


@checked
@dataclass(frozen=True)
class CosineRestarts:
    """lr(t) = min_lr + (initial_lr - min_lr) * (1 + cos(pi * c / C)) / 2 at update c of a cycle.

    C is the cycle's number of updates: first_cycle_updates in the first, and in each later one
    `multiplier` times as many as in the one before.
    Source: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5.
    """

    initial_lr: Positive
    first_cycle_updates: Horizon
    multiplier: Count = 1
    min_lr: NonNegative = 0.0

    def __post_init__(self) -> None:
        check_minimum(self.min_lr, initial_lr=self.initial_lr)

    @property
    def peak(self) -> float:
        return self.initial_lr

    def __call__(self, updates: int) -> float:
        c, length = updates, self.first_cycle_updates
        if self.multiplier == 1:
            c %= length
        while c >= length:
            c -= length
            length *= self.multiplier
        left = (1 + math.cos(math.pi * c / length)) / 2
        return self.min_lr + (self.initial_lr - self.min_lr) * left


@checked
@dataclass(frozen=True)
class WarmupStableDecay:
    """Rises to lr in a straight line, holds it, and falls to min_lr over the last decay_updates.

    With w = warmup_updates, d = decay_updates, T = num_updates: lr(t) = lr * min((t + 1) / w, 1) up
    to T - d, then min_lr + (lr - min_lr) * f(min((t - T + d) / d, 1)); f(x) = 1 - x, or 1 - sqrt(x)
    if shape is sqrt.
    With w or d 0 that phase is left out.
    Source: Hu et al. 2024, arXiv:2404.06395 (phases); Haegele et al. 2024, arXiv:2405.18392
    (decay).
    """

    lr: Positive
    warmup_updates: Span
    decay_updates: Span
    num_updates: Horizon
    shape: Literal["linear", "sqrt"] = "linear"
    min_lr: NonNegative = 0.0

    def __post_init__(self) -> None:
        warmup, decay, total = self.warmup_updates, self.decay_updates, self.num_updates
        check_minimum(self.min_lr, lr=self.lr)
        if warmup + decay > total:
            raise ValueError(
                f"warmup_updates={warmup} and decay_updates={decay}: together should be at most "
                f"num_updates={total}; shorten one of them, or train for longer"
            )

    def __call__(self, updates: int) -> float:
        decayed = updates - (self.num_updates - self.decay_updates)
        if decayed <= 0 or not self.decay_updates:
            share: float = min((updates + 1) / max(self.warmup_updates, 1), 1.0)
            return self.lr * share
        done = min(decayed / self.decay_updates, 1.0)
        return _between(self.lr, self.min_lr, done=done, shape=self.shape)


def _between(start: float, end: float, *, done: float, shape: str) -> float:
    return end + (start - end) * LEFT[shape](done)

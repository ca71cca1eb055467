"""Schedules with one formula from the first update to the last.

>>> schedule = Cosine(initial_lr=0.1, num_updates=4)
>>> [round(schedule(updates), 4) for updates in range(6)]
[0.1, 0.0854, 0.05, 0.0146, 0.0, 0.0]
"""

from __future__ import annotations  # help() shows them as they stand

import math
from dataclasses import dataclass

from andiron.ranges import Count, Decay, Horizon, NonNegative, Positive, Span, checked


@checked
@dataclass(frozen=True)
class Polynomial:
    """lr(t) = final_lr + (initial_lr - final_lr) * (1 - min(t / T, 1)) ** power, T = num_updates.

    Source: Chen et al. 2018, arXiv:1606.00915, section 4 (there called "poly", with power 0.9).
    """

    initial_lr: Positive
    num_updates: Horizon
    power: Positive = 1.0
    final_lr: NonNegative = 0.0

    @property
    def peak(self) -> float:
        return max(self.initial_lr, self.final_lr)

    def __call__(self, updates: int) -> float:
        done = min(updates / self.num_updates, 1.0)
        return self.final_lr + (self.initial_lr - self.final_lr) * math.pow(1 - done, self.power)


@checked
@dataclass(frozen=True)
class Cosine:
    """lr(t) = min_lr + (initial_lr - min_lr) * (1 + cos(pi * min(t / T, 1))) / 2, T = num_updates.

    Source: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5, without restarts.
    """

    initial_lr: Positive
    num_updates: Horizon
    min_lr: NonNegative = 0.0

    def __post_init__(self) -> None:
        check_minimum(self.min_lr, initial_lr=self.initial_lr)

    @property
    def peak(self) -> float:
        return self.initial_lr

    def __call__(self, updates: int) -> float:
        done = min(updates / self.num_updates, 1.0)
        return self.min_lr + (self.initial_lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2


@checked
@dataclass(frozen=True)
class Exponential:
    """lr(t) = initial_lr * gamma ** t."""

    initial_lr: Positive
    gamma: Decay

    def __call__(self, updates: int) -> float:
        return self.initial_lr * math.pow(self.gamma, updates)


@checked
@dataclass(frozen=True)
class Noam:
    """lr(t) = factor * d ** -0.5 * min(s ** -0.5, s * w ** -1.5).

    s = t + 1 (it counts from 1 in the paper), d = model_size, w = warmup_updates; without a
    warm-up, w = 0, the second term is left out.
    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 3.
    """

    factor: Positive
    warmup_updates: Span = 4000
    model_size: Count = 512

    def __call__(self, updates: int) -> float:
        s = updates + 1
        rise = s / math.pow(max(self.warmup_updates, 1), 1.5)
        return self.factor / math.sqrt(self.model_size) * min(1 / math.sqrt(s), rise)


@checked
@dataclass(frozen=True)
class Step:
    """lr(t) = initial_lr * gamma ** floor(t / step_size)."""

    initial_lr: Positive
    step_size: Horizon
    gamma: Positive = 0.1

    def __call__(self, updates: int) -> float:
        return self.initial_lr * math.pow(self.gamma, updates // self.step_size)

    def length_warning(self, num_updates: int) -> str | None:
        """A warning if the run ends before the first step."""
        if self.step_size < num_updates:
            return None
        return (
            f"step_size={self.step_size}: the first step comes after all {num_updates} updates, so "
            "the learning rate never changes; give fewer updates, or epochs (0.5epochs)"
        )


def check_minimum(min_lr: float, **top: float) -> None:
    """Raises: ValueError if min_lr is above the rate that the schedule falls from."""
    ((name, value),) = top.items()
    if min_lr > value:
        raise ValueError(
            f"min_lr={min_lr}: should be at most {name}={value}; lower min_lr, or raise {name}"
        )

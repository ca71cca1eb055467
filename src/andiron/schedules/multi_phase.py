"""Schedules of several phases: up and down, down again and again, up and level and down."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from andiron.schedules import argument_checks

# what is left of the way from one value to the next when the share `done` of the time has passed
LEFT: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "sqrt": lambda done: 1 - math.sqrt(done),
}
ONE_CYCLE_SHAPES = ("cosine", "linear")
DECAY_SHAPES = ("linear", "sqrt")


@dataclass(frozen=True)
class OneCycle:
    """Up to max_lr within the first part of the run, then down to nearly nothing.

    With T = num_updates, p = warmup_fraction * T - 1, a = max_lr / initial_divisor, b = a / final_divisor:
    lr(t) = max_lr + (a - max_lr) * f(t / p) while t <= p, then b + (max_lr - b) * f((t - p) / (T - 1 - p)), and
    lr(T - 1) from there on; f(x) = (1 + cos(pi * x)) / 2, or 1 - x where shape is linear.
    Source: Smith & Topin 2018, arXiv:1708.07120; the numbers and the cosine are those of torch's OneCycleLR.
    """

    max_lr: float
    num_updates: int
    warmup_fraction: float = 0.3
    initial_divisor: float = 25.0
    final_divisor: float = 1e4
    shape: str = "cosine"

    def __post_init__(self) -> None:
        argument_checks.check_counts(num_updates=self.num_updates)
        argument_checks.check_not_negative(max_lr=self.max_lr)
        argument_checks.check_positive(
            initial_divisor=self.initial_divisor, final_divisor=self.final_divisor
        )
        argument_checks.check_choice("shape", self.shape, allowed=ONE_CYCLE_SHAPES)
        if not 0 <= self.warmup_fraction <= 1:
            raise ValueError(
                f"warmup_fraction={self.warmup_fraction}: should be from 0 to 1; 0.3 is three tenths of the run"
            )

    def __call__(self, updates: int) -> float:
        last = self.num_updates - 1
        peak = self.warmup_fraction * self.num_updates - 1
        t = min(updates, last)
        initial_lr = self.max_lr / self.initial_divisor
        if t <= peak:
            return _between(
                initial_lr, self.max_lr, done=t / peak if peak else 1.0, shape=self.shape
            )
        final_lr = initial_lr / self.final_divisor
        return _between(self.max_lr, final_lr, done=(t - peak) / (last - peak), shape=self.shape)


@dataclass(frozen=True)
class CosineRestarts:
    """lr(t) = min_lr + (initial_lr - min_lr) * (1 + cos(pi * c / C)) / 2, at update c of a cycle of C updates.

    The first cycle has first_cycle_updates, each later one `multiplier` times as many as the one before.
    Source: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5.
    """

    initial_lr: float
    first_cycle_updates: int
    multiplier: int = 1
    min_lr: float = 0.0

    def __post_init__(self) -> None:
        argument_checks.check_counts(first_cycle_updates=self.first_cycle_updates)
        argument_checks.check_not_negative(initial_lr=self.initial_lr, min_lr=self.min_lr)
        argument_checks.check_at_most(
            "min_lr", self.min_lr, limit_name="initial_lr", limit=self.initial_lr
        )
        if self.multiplier < 1:
            raise ValueError(
                f"multiplier={self.multiplier}: should be 1 or more; 1 makes all cycles equally long"
            )

    def __call__(self, updates: int) -> float:
        c, length = updates, self.first_cycle_updates
        if self.multiplier == 1:
            c %= length
        while c >= length:
            c -= length
            length *= self.multiplier
        return (
            self.min_lr + (self.initial_lr - self.min_lr) * (1 + math.cos(math.pi * c / length)) / 2
        )


@dataclass(frozen=True)
class WarmupStableDecay:
    """Up to lr in a straight line, level, and down to min_lr over the last decay_updates.

    With w = warmup_updates, d = decay_updates, T = num_updates: lr(t) = lr * min((t + 1) / w, 1) up to T - d, then
    min_lr + (lr - min_lr) * f(min((t - T + d) / d, 1)); f(x) = 1 - x, or 1 - sqrt(x) where shape is sqrt.
    Source: Hu et al. 2024, arXiv:2404.06395 (the phases); Haegele et al. 2024, arXiv:2405.18392 (the decays).
    """

    lr: float
    warmup_updates: int
    decay_updates: int
    num_updates: int
    shape: str = "linear"
    min_lr: float = 0.0

    def __post_init__(self) -> None:
        warmup, decay = self.warmup_updates, self.decay_updates
        argument_checks.check_counts(
            warmup_updates=warmup, decay_updates=decay, num_updates=self.num_updates
        )
        argument_checks.check_not_negative(lr=self.lr, min_lr=self.min_lr)
        argument_checks.check_at_most("min_lr", self.min_lr, limit_name="lr", limit=self.lr)
        argument_checks.check_choice("shape", self.shape, allowed=DECAY_SHAPES)
        if warmup + decay > self.num_updates:
            raise ValueError(
                f"warmup_updates={warmup} and decay_updates={decay}: together should be at most "
                f"num_updates={self.num_updates}; shorten one of them, or train for longer"
            )

    def __call__(self, updates: int) -> float:
        decayed = updates - (self.num_updates - self.decay_updates)
        if decayed <= 0:
            return self.lr * min((updates + 1) / self.warmup_updates, 1.0)
        return _between(
            self.lr, self.min_lr, done=min(decayed / self.decay_updates, 1.0), shape=self.shape
        )


def _between(start: float, end: float, *, done: float, shape: str) -> float:
    return end + (start - end) * LEFT[shape](done)

"""One formula from the first update to the last, and on."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from andiron.schedules import argument_checks

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Constant:
    """lr(t) = lr."""

    lr: float

    def __call__(self, updates: int) -> float:
        return self.lr


@dataclass(frozen=True)
class Linear:
    """lr(t) = initial_lr + (final_lr - initial_lr) * min(t / T, 1), with T = num_updates."""

    initial_lr: float
    final_lr: float
    num_updates: int

    def __post_init__(self) -> None:
        argument_checks.check_counts(num_updates=self.num_updates)

    def __call__(self, updates: int) -> float:
        done = min(updates / self.num_updates, 1.0)
        return self.initial_lr + (self.final_lr - self.initial_lr) * done


@dataclass(frozen=True)
class Polynomial:
    """lr(t) = final_lr + (initial_lr - final_lr) * (1 - min(t / T, 1)) ** power, with T = num_updates.

    Source: Chen et al. 2018, arXiv:1606.00915, section 4 (there called "poly", with power 0.9).
    """

    initial_lr: float
    num_updates: int
    power: float = 1.0
    final_lr: float = 0.0

    def __post_init__(self) -> None:
        argument_checks.check_counts(num_updates=self.num_updates)
        argument_checks.check_not_negative(initial_lr=self.initial_lr, final_lr=self.final_lr)
        argument_checks.check_positive(power=self.power)

    def __call__(self, updates: int) -> float:
        done = min(updates / self.num_updates, 1.0)
        return self.final_lr + (self.initial_lr - self.final_lr) * math.pow(1 - done, self.power)


@dataclass(frozen=True)
class Cosine:
    """lr(t) = min_lr + (initial_lr - min_lr) * (1 + cos(pi * min(t / T, 1))) / 2, with T = num_updates.

    Source: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5, without restarts.
    """

    initial_lr: float
    num_updates: int
    min_lr: float = 0.0

    def __post_init__(self) -> None:
        argument_checks.check_counts(num_updates=self.num_updates)

    def __call__(self, updates: int) -> float:
        done = min(updates / self.num_updates, 1.0)
        return self.min_lr + (self.initial_lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class Exponential:
    """lr(t) = initial_lr * gamma ** t."""

    initial_lr: float
    gamma: float

    def __call__(self, updates: int) -> float:
        return self.initial_lr * math.pow(self.gamma, updates)


@dataclass(frozen=True)
class Noam:
    """lr(t) = factor * d ** -0.5 * min(s ** -0.5, s * w ** -1.5), with s = t + 1, d = model_size, w = warmup_updates.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 3; s counts from 1 there.
    """

    factor: float
    warmup_updates: int = 4000
    model_size: int = 512

    def __post_init__(self) -> None:
        argument_checks.check_counts(warmup_updates=self.warmup_updates)

    def __call__(self, updates: int) -> float:
        s = updates + 1
        return (
            self.factor
            / math.sqrt(self.model_size)
            * min(1 / math.sqrt(s), s / math.pow(self.warmup_updates, 1.5))
        )


@dataclass(frozen=True)
class Step:
    """lr(t) = initial_lr * gamma ** floor(t / step_size)."""

    initial_lr: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        argument_checks.check_counts(step_size=self.step_size)

    def __call__(self, updates: int) -> float:
        drops = updates // self.step_size
        return self.initial_lr * math.pow(self.gamma, drops)


def from_value(lr: float | Schedule) -> Schedule:
    """`lr` itself if it is a schedule, the constant schedule if it is a plain number."""
    return lr if callable(lr) else Constant(float(lr))

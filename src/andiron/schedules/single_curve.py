"""Schedules with one formula from the first update to the last.

>>> schedule = Cosine(initial_lr=0.1, num_updates=4)
>>> [round(schedule(updates), 4) for updates in range(6)]
[0.1, 0.0854, 0.05, 0.0146, 0.0, 0.0]
"""

from __future__ import annotations  # help() shows them as they stand

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from andiron.ranges import Count, Decay, Horizon, NonNegative, Positive, Span, checked

Schedule = Callable[[int], float]
MOST_ASKED = 10_000_000  # updates: a rate takes about a microsecond


@checked
@dataclass(frozen=True)
class Constant:
    """lr(t) = lr."""

    lr: Positive

    @property
    def peak(self) -> float:
        return self.lr

    def __call__(self, updates: int) -> float:
        return self.lr


@checked
@dataclass(frozen=True)
class Linear:
    """lr(t) = initial_lr + (final_lr - initial_lr) * min(t / T, 1), with T = num_updates.

    Unlike in Burn, `initial_lr` may be 0: warm-ups from 0 are common, and cost one update.
    """

    initial_lr: NonNegative
    final_lr: NonNegative
    num_updates: Horizon

    @property
    def peak(self) -> float:
        return max(self.initial_lr, self.final_lr)

    def __call__(self, updates: int) -> float:
        done: float = min(updates / self.num_updates, 1.0)
        return self.initial_lr + (self.final_lr - self.initial_lr) * done


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


def from_value(lr: float | Schedule) -> Schedule:
    """`lr` itself if it is a schedule, the constant schedule if it is a number."""
    return lr if callable(lr) else Constant(float(lr))


def stateful(schedule: Schedule) -> list[Any]:
    """The schedules with a state_dict in `schedule`, itself included; depth first, each once."""
    has_state = hasattr(schedule, "state_dict") and hasattr(schedule, "load_state_dict")
    own: list[Any] = [schedule] if has_state else []
    inner_schedules = [*getattr(schedule, "schedules", ()), getattr(schedule, "schedule", None)]
    for inner in filter(None, inner_schedules):
        own += [value for value in stateful(inner) if not any(value is other for other in own)]
    return own


def peak_rate(schedule: Schedule, num_updates: int) -> float:
    """The rate that a schedule declares as its property `peak`, else the highest of the run.

    A warm-up has the peak of its schedule. A stateful schedule is asked as a copy that observes
    nothing: a Plateau has its initial rate.
    Raises: ValueError if there is none above 0, or the run is too long to ask for every rate.
    """
    if getattr(schedule, "rises_to_schedule", False):  # a warm-up
        return peak_rate(schedule.schedule, num_updates)  # type: ignore[attr-defined]
    if isinstance(getattr(type(schedule), "peak", None), property):
        peak: float = schedule.peak  # type: ignore[attr-defined]
    elif num_updates > MOST_ASKED:
        raise ValueError(
            f"the peak of the schedule is unknown above {MOST_ASKED:,} updates: give it a property "
            "`peak`, or the group lr_scale"
        )
    else:
        asked = copy.deepcopy(schedule) if stateful(schedule) else schedule
        peak = max(map(asked, range(num_updates)), default=0.0)
    if not 0 < peak < math.inf:
        raise ValueError(f"the peak of the schedule is {peak}; should be finite and above 0")
    return float(peak)


def check_minimum(min_lr: float, **top: float) -> None:
    """Raises: ValueError if min_lr is above the rate that the schedule falls from."""
    ((name, value),) = top.items()
    if min_lr > value:
        raise ValueError(
            f"min_lr={min_lr}: should be at most {name}={value}; lower min_lr, or raise {name}"
        )

"""Schedules made of schedules: one after another, several at once, or one behind a warm-up."""

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from andiron.schedules import argument_checks
from andiron.schedules.single_curve import Schedule

REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "product": math.prod,
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
}


@dataclass(frozen=True)
class Sequential:
    """lr(t) = schedules[i](t - m_i), with m_i the last milestone that t has reached; m_0 = 0.

    `milestones` holds m_1, m_2, ...: the update at which each schedule but the first begins, on a clock of its own.
    """

    schedules: Sequence[Schedule]
    milestones: Sequence[int]

    def __post_init__(self) -> None:
        check_milestones(self.milestones, num_schedules=len(self.schedules))
        object.__setattr__(self, "schedules", tuple(self.schedules))
        object.__setattr__(self, "milestones", tuple(self.milestones))

    def __call__(self, updates: int) -> float:
        reached = bisect.bisect_right(self.milestones, updates)
        begun = self.milestones[reached - 1] if reached else 0
        return self.schedules[reached](updates - begun)


@dataclass(frozen=True)
class Composed:
    """lr(t) = the product, sum or mean of schedule(t) over the schedules."""

    schedules: Sequence[Schedule]
    reduction: str = "product"

    def __post_init__(self) -> None:
        _check_some(len(self.schedules))
        argument_checks.check_choice("reduction", self.reduction, allowed=REDUCTIONS)
        object.__setattr__(self, "schedules", tuple(self.schedules))

    def __call__(self, updates: int) -> float:
        return REDUCTIONS[self.reduction]([schedule(updates) for schedule in self.schedules])


@dataclass(frozen=True)
class Warmup:
    """lr(t) = schedule(t) * min((t + 1) / w, 1), with w = warmup_updates.

    The schedule's own clock runs from update 0, so the warm-up takes nothing away from its horizon.
    Source: Goyal et al. 2017, arXiv:1706.02677, section 2.2 (a gradual warm-up).
    """

    schedule: Schedule
    warmup_updates: int

    def __post_init__(self) -> None:
        argument_checks.check_counts(warmup_updates=self.warmup_updates)

    def __call__(self, updates: int) -> float:
        return self.schedule(updates) * min((updates + 1) / self.warmup_updates, 1.0)


def check_milestones(milestones: Sequence[int], *, num_schedules: int) -> None:
    """Raises: ValueError if `milestones` cannot part `num_schedules` schedules from one another."""
    _check_some(num_schedules)
    shown = f"milestones={list(milestones)}"
    if len(milestones) != num_schedules - 1:
        raise ValueError(
            f"{shown}: {len(milestones)} for {num_schedules} schedules, should be {num_schedules - 1}; "
            "give the update at which each schedule but the first begins"
        )
    if any(later <= earlier for earlier, later in itertools.pairwise([0, *milestones])):
        raise ValueError(
            f"{shown}: should rise from 1 up; put them in order, and leave no schedule without an update"
        )


def stateful(schedule: Schedule) -> list[Any]:
    """The schedules with a state_dict within `schedule`, or itself: depth first, in order, each once."""
    found: list[Any] = (
        [schedule]
        if hasattr(schedule, "state_dict") and hasattr(schedule, "load_state_dict")
        else []
    )
    for inner in _inside(schedule):
        found += [each for each in stateful(inner) if not any(each is other for other in found)]
    return found


def _inside(schedule: Schedule) -> Sequence[Schedule]:
    if isinstance(schedule, Warmup):
        return [schedule.schedule]
    return schedule.schedules if isinstance(schedule, (Sequential, Composed)) else []


def _check_some(num_schedules: int) -> None:
    if num_schedules == 0:
        raise ValueError(
            "schedules=[]: should hold at least one schedule; Constant(lr) is the simplest"
        )

"""Schedules made of schedules: in sequence, combined, or behind a warm-up.

>>> from andiron.schedules import Constant, Linear
>>> schedule = Sequential([Linear(0.0, 1.0, num_updates=2), Constant(1.0)], milestones=[2])
>>> [schedule(updates) for updates in range(4)]
[0.0, 0.5, 1.0, 1.0]
"""

from __future__ import annotations  # help() shows them as they stand

import bisect
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from andiron.plain.plain_values import Named
from andiron.ranges import Span, checked

log = logging.getLogger("andiron")
Schedules = Annotated[Sequence[Callable[[int], float]], AfterValidator(tuple)]
Milestones = Annotated[Sequence[Span], AfterValidator(tuple)]

REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "product": math.prod,
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
}


@checked
@dataclass(frozen=True)
class Sequential:
    """lr(t) = `schedules[i](t - m_i)`, with m_i the last milestone that t has reached; m_0 = 0.

    `milestones` are m_1, m_2, ...: the update at which each schedule but the first begins; each
    schedule counts its updates from there. With m_1 = 0 the first one is left out.
    """

    schedules: Schedules
    milestones: Milestones

    def __post_init__(self) -> None:
        _check_milestones(self.milestones, num_schedules=len(self.schedules))

    def __call__(self, updates: int) -> float:
        reached = bisect.bisect_right(self.milestones, updates)
        begun = self.milestones[reached - 1] if reached else 0
        return self.schedules[reached](updates - begun)

    @staticmethod
    def inner_updates(num_updates: int, arguments: Named) -> Iterable[int]:
        """The numbers of updates between the milestones."""
        milestones = arguments["milestones"]
        _check_milestones(milestones, num_schedules=len(arguments["schedules"]))
        if milestones and milestones[-1] >= num_updates:
            raise ValueError(
                f"milestones={milestones}: the last should be below {num_updates}, the number of "
                "updates, or the schedule after it never runs; set it earlier, or train for longer"
            )
        ends = itertools.pairwise([0, *milestones, num_updates])
        return [max(1, end - begin) for begin, end in ends]  # one that is left out is built too


@checked
@dataclass(frozen=True)
class Composed:
    """lr(t) = the product, sum or mean of schedule(t) over the schedules."""

    schedules: Schedules
    reduction: Literal["product", "sum", "mean"] = "product"

    def __post_init__(self) -> None:
        _check_some(len(self.schedules))

    def __call__(self, updates: int) -> float:
        return REDUCTIONS[self.reduction]([schedule(updates) for schedule in self.schedules])


@checked
@dataclass(frozen=True)
class Warmup:
    """lr(t) = schedule(t) * min((t + 1) / w, 1), with w = warmup_updates; schedule(t) if w = 0.

    The schedule counts its updates from 0 too: the warm-up does not shorten its horizon.
    Source: Goyal et al. 2017, arXiv:1706.02677, section 2.2 (a gradual warm-up).
    """

    schedule: Callable[[int], float]
    warmup_updates: Span
    rises_to_schedule: ClassVar[bool] = True  # its peak is that of the schedule

    def __call__(self, updates: int) -> float:
        share: float = min((updates + 1) / max(self.warmup_updates, 1), 1.0)
        return self.schedule(updates) * share

    @staticmethod
    def inner_updates(num_updates: int, arguments: Named) -> Iterable[int]:
        """All updates, for the one schedule."""
        warmup = arguments["warmup_updates"]
        if warmup > num_updates:
            raise ValueError(
                f"warmup_updates={warmup}: should be at most {num_updates}, the number of updates; "
                "shorten it, or train for longer"
            )
        return [num_updates]


def inner_updates(schedule_class: object, num_updates: int, arguments: Named) -> Iterable[int]:
    """The number of updates of each schedule inside a `schedule_class`.

    Inner schedules are its attribute `schedules`, or `schedule` for one. A configuration may omit
    the length of an inner schedule: a static method of the class, `inner_updates(num_updates,
    arguments)`, then gives that of each; without it each has the whole length. `arguments` are the
    constructor's, by name; inner schedules are not built yet.
    Raises: ValueError, beginning with an argument's name, if an inner schedule would never run.
    """
    lengths = getattr(schedule_class, "inner_updates", None)
    return itertools.repeat(num_updates) if lengths is None else lengths(num_updates, arguments)


def warn_of_length(option: str, schedule: object, num_updates: int | None) -> None:
    """Logs the `length_warning` of a schedule that has one, such as Step."""
    warning = getattr(schedule, "length_warning", None)
    if num_updates and warning and (text := warning(num_updates)):
        log.warning("%s.%s", option, text)


def _check_milestones(milestones: Sequence[int], *, num_schedules: int) -> None:
    _check_some(num_schedules)
    shown = f"milestones={list(milestones)}"
    if len(milestones) != num_schedules - 1:
        raise ValueError(
            f"{shown}: {len(milestones)} for {num_schedules} schedules, should be "
            f"{num_schedules - 1}; give the update at which each schedule but the first begins"
        )
    if any(later <= earlier for earlier, later in itertools.pairwise(milestones)):
        raise ValueError(
            f"{shown}: should increase, from 0 on; sort them, and give each schedule an update"
        )


def _check_some(num_schedules: int) -> None:
    if num_schedules == 0:
        raise ValueError(
            "schedules=[]: should hold at least one schedule; Constant(lr) is the simplest"
        )

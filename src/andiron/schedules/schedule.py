"""A schedule: a function from the number of completed updates to the learning rate; straight ones.

>>> from_value(0.1)(1000), stateful(Constant(0.1))
(0.1, [])
"""

from __future__ import annotations  # help() shows them as they stand

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from andiron.ranges import Horizon, NonNegative, Positive, checked

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

"""When a repeated event is due: an interval in updates, epochs or minutes.

>>> Cadence.of("2epochs")
Cadence(updates=None, epochs=2.0, minutes=None)
>>> every = Ticker(Cadence.of(500))
>>> every.due(updates=500, epochs=None)
True
"""

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

EVERY = re.compile(r"(?=.*[1-9])(\d+(?:\.\d+)?)(epoch|minute)s?")  # 2epochs, 0.5epochs, 10minutes
# 90s, 30min, 8hours, 0.5h, 2days; never 0
DURATION = re.compile(
    r"(?=.*[1-9])(\d{1,6}(?:\.\d{1,6})?) ?(s|seconds?|min|minutes?|h|hours?|d|days?)"
)
Clock = Callable[[], float]  # seconds from any start


def seconds_of(duration: str) -> float:
    """The seconds of a duration such as 90s, 30min, 8hours, 0.5h or 2days.

    Raises: ValueError.

    >>> seconds_of("0.5h"), seconds_of("90s"), seconds_of("2days")
    (1800.0, 90.0, 172800.0)
    """
    match = DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"{duration}: should be like 90s, 30min, 8hours or 2days")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2][0]]


@dataclass(frozen=True)
class Cadence:
    """An interval in updates, epochs or minutes since the last event, whichever ends first.

    Raises: ValueError for a number that is not positive, or without any.
    """

    updates: int | None = None
    # whole numbers: at the end of such an epoch; `in_updates` resolves fractions
    epochs: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        values = {name: value for name, value in vars(self).items() if value is not None}
        for name, value in values.items():
            if not 0 < value < math.inf:
                raise ValueError(
                    f"{name}={value}: should be a finite number above 0; give one, or leave it out"
                )
        if not values:
            raise ValueError("nothing is ever due; give updates, epochs or minutes")

    @classmethod
    def of(cls, value: "int | str | Mapping[str, Any] | Cadence") -> "Cadence":
        """The cadence of an option's value: `500` updates, `2epochs`, `10minutes`, or a mapping."""
        if isinstance(value, Cadence):
            return value
        if isinstance(value, int):
            value = {"updates": value}
        if isinstance(value, str):
            match = EVERY.fullmatch(value)
            if match is None:
                raise ValueError(
                    f"{value}: should be like 500 (updates), 2epochs or 10minutes; write one of "
                    "these"
                )
            value = {f"{match[2]}s": float(match[1])}
        return cls(**value)

    def in_updates(self, updates_per_epoch: int) -> "Cadence":
        """The cadence with fractional epochs as updates, at least 1."""
        if self.epochs is None or self.epochs == int(self.epochs):
            return self
        updates = max(1, round(self.epochs * updates_per_epoch))
        return replace(self, updates=min(updates, self.updates or updates), epochs=None)


EVERY_EPOCH = Cadence(epochs=1)


class Ticker:
    """A cadence, and the last event; `clock` gives seconds."""

    def __init__(self, cadence: Cadence, clock: Clock = time.monotonic):
        self.cadence = cadence
        self.next_update: float = 0  # to be due within an epoch; set by `look_ahead`
        self._clock = clock
        self.done(-1)

    def resolve(self, updates_per_epoch: int) -> None:
        """Resolves fractional epochs to updates."""
        self.cadence = self.cadence.in_updates(updates_per_epoch)

    def due(self, *, updates: int, epochs: int | None) -> bool:
        """Whether an event is due after `updates` updates.

        `epochs` is the number of completed epochs at the end of one, and None within an epoch.
        """
        every = self.cadence
        return not self.was_done(updates) and bool(
            (every.updates and updates and updates % every.updates == 0)
            or (every.epochs and epochs is not None and epochs % every.epochs == 0)
            or self._is_time
        )

    def look_ahead(self, updates: int) -> float:
        """Finds the first update after `updates` to be due, as far as the clock says."""
        every = 1 if self._is_time else self.cadence.updates or math.inf
        self.next_update = (updates // every + 1) * every
        return self.next_update

    @property
    def _is_time(self) -> bool:
        minutes = self.cadence.minutes
        return minutes is not None and self._clock() - self._last_time >= 60 * minutes

    def was_done(self, updates: int) -> bool:
        """Whether the last event was after this update."""
        return updates == self._last_update

    def done(self, updates: int) -> None:
        """Records an event: none is due again after the same update."""
        self._last_update = updates
        if self.cadence.minutes is not None:
            self._last_time = self._clock()

    def state_dict(self) -> dict[str, Any]:
        """The update of the last event."""
        return {"last_update": self._last_update}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a saved state; minutes count from now."""
        self.done(state["last_update"])

"""When to end a process that trains: at any moment, or aimed at what it does."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from andiron.commands import phases
from andiron.commands.phases import Seen


@dataclass(frozen=True)
class Lengths:
    """Of the straight run, in seconds: all of it, until it logs, from the test set's line to `done`, and from there."""

    whole: float
    start: float
    end: float
    after: float


@dataclass(frozen=True)
class Aim:
    """When to end a process: once it has run for so long and `is_time`, and then a little later."""

    earliest: float  # seconds
    is_time: Callable[[Seen], bool] = lambda seen: True
    late: float = 0.0  # seconds


def _in_training(draw: random.Random, of: Lengths) -> float:
    return of.start + draw.uniform(0, (of.whole - of.start) / 2)  # what is left is less from kill to kill


def _in_writing(draw: random.Random, of: Lengths) -> Aim:
    earliest = draw.choice([0.0, _in_training(draw, of)])  # the first is written before the first update
    return Aim(earliest, lambda seen: seen.phase == phases.WRITE, _a_little(draw))


def _a_little(draw: random.Random) -> float:
    return draw.choice([0.0, draw.uniform(0, 0.004)])  # seconds: a file is written in some of them


LATE = ("end", "weights", "after")  # the run comes to its end for these
AIMS: dict[str, Callable[[random.Random, Lengths], Aim]] = {
    "any": lambda draw, of: Aim(draw.uniform(0, of.whole)),
    "start": lambda draw, of: Aim(draw.uniform(0, of.start)),
    "training": lambda draw, of: Aim(_in_training(draw, of), lambda seen: seen.has_logged),
    "validation": lambda draw, of: Aim(_in_training(draw, of), lambda seen: seen.phase == phases.VALIDATION),
    "write": _in_writing,
    "end": lambda draw, of: Aim(0.0, lambda seen: seen.is_measured, draw.uniform(0, of.end)),
    "weights": lambda draw, of: Aim(0.0, lambda seen: seen.phase == phases.WEIGHTS, _a_little(draw)),
    "after": lambda draw, of: Aim(0.0, lambda seen: seen.phase == phases.AFTER, draw.uniform(0, of.after)),
}

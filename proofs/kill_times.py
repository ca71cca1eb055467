"""When to end a process that trains: at any moment, or aimed at what it does."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from proofs import observed_phase
from proofs.observed_phase import Seen


@dataclass(frozen=True)
class Lengths:
    """Of the straight run, in seconds: all of it, until it logs, from the test set's line to `done`, and from there."""

    whole: float
    start: float
    end: float
    after: float


@dataclass(frozen=True)
class Aim:
    """When to end a process: once `is_time`, and then a little later."""

    is_time: Callable[[Seen], bool]
    late: float = 0.0  # seconds


def _after(seconds: float) -> Aim:
    return Aim(lambda seen: seen.running_for >= seconds)


def _at(phase: str, late: float, *, logging_for: float = 0.0) -> Aim:
    return Aim(lambda seen: seen.phase == phase and seen.logging_for >= logging_for, late)


def _logging_for(draw: random.Random, of: Lengths) -> float:
    return draw.uniform(
        0, (of.whole - of.start) / 2
    )  # seconds: what is left is less from kill to kill


def _in_training(draw: random.Random, of: Lengths) -> Aim:
    seconds = _logging_for(draw, of)
    return Aim(lambda seen: seen.has_logged and seen.logging_for >= seconds)


def _in_writing(draw: random.Random, of: Lengths) -> Aim:
    logging_for = draw.choice(
        [0.0, _logging_for(draw, of)]
    )  # the first is written before the first update
    return _at(observed_phase.WRITE, _a_little(draw), logging_for=logging_for)


def _a_little(draw: random.Random) -> float:
    return draw.choice([0.0, draw.uniform(0, 0.004)])  # seconds: a file is written in some of them


LATE = ("end", "weights", "after")  # the run comes to its end for these
AIMS: dict[str, Callable[[random.Random, Lengths], Aim]] = {
    "any": lambda draw, of: _after(draw.uniform(0, of.whole)),
    "start": lambda draw, of: _after(draw.uniform(0, of.start)),
    "training": _in_training,
    "validation": lambda draw, of: _at(
        observed_phase.VALIDATION, 0.0, logging_for=_logging_for(draw, of)
    ),
    "write": _in_writing,
    "end": lambda draw, of: Aim(lambda seen: seen.is_measured, draw.uniform(0, of.end)),
    "weights": lambda draw, of: _at(observed_phase.WEIGHTS, _a_little(draw)),
    "after": lambda draw, of: _at(observed_phase.AFTER, draw.uniform(0, of.after)),
}

"""When to kill a training process: at any moment, or in a chosen phase."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from proofs import observed_phase
from proofs.observed_phase import ObservedProcess


@dataclass(frozen=True)
class Lengths:
    """Seconds of the uninterrupted run."""

    whole: float
    start: float  # until it logs
    end: float  # from the line of the test set to `done`
    after: float  # from `done` to its exit


@dataclass(frozen=True)
class Aim:
    """When to kill a process: once `is_time`, and then some seconds later."""

    is_time: Callable[[ObservedProcess], bool]
    seconds_late: float = 0.0


def _after(seconds: float) -> Aim:
    return Aim(lambda process: process.seconds_running >= seconds)


def _in_phase(phase: str, seconds_late: float, *, seconds_logging: float = 0.0) -> Aim:
    return Aim(
        lambda process: process.phase == phase and process.seconds_logging >= seconds_logging,
        seconds_late,
    )


def _seconds_logging(draw: random.Random, lengths: Lengths) -> float:
    # half: each kill leaves less of the run for the next
    return draw.uniform(0, (lengths.whole - lengths.start) / 2)


def _in_training(draw: random.Random, lengths: Lengths) -> Aim:
    seconds = _seconds_logging(draw, lengths)
    return Aim(lambda process: process.has_logged and process.seconds_logging >= seconds)


def _in_writing(draw: random.Random, lengths: Lengths) -> Aim:
    # 0: the first checkpoint is written before the first update
    seconds_logging = draw.choice([0.0, _seconds_logging(draw, lengths)])
    return _in_phase(
        observed_phase.WRITE, _seconds_of_a_write(draw), seconds_logging=seconds_logging
    )


def _seconds_of_a_write(draw: random.Random) -> float:
    return draw.choice([0.0, draw.uniform(0, 0.004)])  # a file is written in some milliseconds


LATE = ("end", "weights", "after")  # aims that let the run come to its end
AIMS: dict[str, Callable[[random.Random, Lengths], Aim]] = {
    "any": lambda draw, lengths: _after(draw.uniform(0, lengths.whole)),
    "start": lambda draw, lengths: _after(draw.uniform(0, lengths.start)),
    "training": _in_training,
    "validation": lambda draw, lengths: _in_phase(
        observed_phase.VALIDATION, 0.0, seconds_logging=_seconds_logging(draw, lengths)
    ),
    "write": _in_writing,
    "end": lambda draw, lengths: Aim(
        lambda process: process.is_measured, draw.uniform(0, lengths.end)
    ),
    "weights": lambda draw, lengths: _in_phase(observed_phase.WEIGHTS, _seconds_of_a_write(draw)),
    "after": lambda draw, lengths: _in_phase(observed_phase.AFTER, draw.uniform(0, lengths.after)),
}

"""What the constructors of schedules refuse, and in which words."""

import math
from collections.abc import Iterable


def check_counts(**counts: int) -> None:
    """Raises: ValueError for a number of updates below 1."""
    for name, value in counts.items():
        if value < 1:
            raise ValueError(
                f"{name}={value}: should be 1 or more; give it as a whole number of updates"
            )


def check_not_negative(**values: float) -> None:
    """Raises: ValueError for a value below 0 or not finite."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(
                f"{name}={value}: should be a finite number from 0 up; a learning rate is never negative"
            )


def check_positive(**values: float) -> None:
    """Raises: ValueError for a value that is 0, below, or not finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(
                f"{name}={value}: should be a finite number above 0; leave it out for the usual one"
            )


def check_at_most(name: str, value: float, *, limit_name: str, limit: float) -> None:
    """Raises: ValueError for a value above its limit."""
    if value > limit:
        raise ValueError(
            f"{name}={value}: should be at most {limit_name}={limit}; lower {name}, or raise {limit_name}"
        )


def check_choice(name: str, value: str, *, allowed: Iterable[str]) -> None:
    """Raises: ValueError for a word that is none of the allowed."""
    names = list(allowed)
    if value not in names:
        raise ValueError(f"{name}={value}: should be {' or '.join(names)}; choose one of these")

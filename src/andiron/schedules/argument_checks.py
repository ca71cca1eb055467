"""The errors that constructors of schedules raise for impossible arguments."""

import math
from typing import Any


def require(is_allowed: bool, allowed: str, **argument: Any) -> None:
    """Raises: ValueError that names the argument, its value and what is allowed."""
    if not is_allowed:
        ((name, value),) = argument.items()
        raise ValueError(f"{name}={value}: should be {allowed}")


def check_counts(**counts: Any) -> None:
    """Raises: ValueError for a number of updates below 1."""
    for name, value in counts.items():
        allowed = "1 or more; give it as a whole number of updates"
        require(value >= 1, allowed, **{name: value})


def check_rates(**rates: float) -> None:
    """Raises: ValueError for a learning rate that is negative or not finite."""
    for name, value in rates.items():
        allowed = "a finite number from 0 up; a learning rate is never negative"
        require(0 <= value < math.inf, allowed, **{name: value})


def check_minimum(min_lr: float, **top: float) -> None:
    """Raises: ValueError unless 0 <= min_lr <= the rate that the schedule falls from."""
    check_rates(**top, min_lr=min_lr)
    ((name, value),) = top.items()
    allowed = f"at most {name}={value}; lower min_lr, or raise {name}"
    require(min_lr <= value, allowed, min_lr=min_lr)

"""Whether a metric value improves on the best so far; one rule for all that wait for it."""

import math
from collections.abc import Mapping

DIRECTIONS = ("lowest", "highest")
LAST = ".last"  # suffix of a metric for its last value; without it, the best


def split_and_metric(name: str) -> tuple[str, str]:
    """The split, and the metric without `.last`.

    >>> split_and_metric("valid/recall/cat.last")
    ('valid', 'recall/cat')
    """
    split, _, metric = name.removesuffix(LAST).partition("/")
    return split, metric


def is_better(
    value: float,
    best: float | None,
    direction: str,
    *,
    margin: float = 0,
    is_relative: bool = False,
) -> bool:
    """Whether `value` is finite and better than `best` (None: no value) by more than `margin`.

    lowest: value < best - margin, or best * (1 - margin) for a relative one; highest: value > best
    + margin, or best * (1 + margin). A relative margin changes sign if best is negative,
    so that it is never on the wrong side.
    """
    if best is None or not math.isfinite(value):
        return math.isfinite(value)
    signed = -margin if direction == "lowest" else margin
    limit = best * (1 + math.copysign(1, best) * signed) if is_relative else best + signed
    return value < limit if direction == "lowest" else value > limit


def direction_of(name: str, directions: Mapping[str, str]) -> str | None:
    """The direction of a metric, or of the metric of a part such as recall/cat; None if unknown."""
    return directions.get(name, directions.get(name.partition("/")[0]))


def measured(
    values: Mapping[str, Mapping[str, float]], split: str, metric: str, *, waiting: str
) -> float:
    """The metric's latest value on the split; `waiting` names its user in the message.

    Raises: KeyError if it was not measured.
    """
    try:
        return values[split][metric]
    except KeyError:
        there = ", ".join(
            f"{split}/{metric}" for split, metrics in values.items() for metric in metrics
        )
        raise KeyError(
            f"{waiting} needs {split}/{metric}, which is not measured; available: "
            f"{there or 'nothing'}; "
            "name one of these as split and metric"
        ) from None

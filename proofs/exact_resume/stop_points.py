"""Where a run can be stopped: the moments that it passed, and the words that choose among them."""

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from andiron import errors

DEFAULT = ("0", "1", "mid", "edge", "validation", "end")
SIGNAL = "signal"
KINDS = (
    "a number of updates, mid, edge, validation, epoch (of epoch n: validation:2), end, test or "
    "signal"
)
POINT = re.compile(r"\d+|mid|edge|end|test|signal|(validation|epoch)(:[1-9]\d*)?")


class Moment(NamedTuple):
    """After `updates`, before a batch (counted from 0) of a pass over `split`."""

    split: str
    updates: int
    batch: int

    def __str__(self) -> str:
        batches = "batch" if self.batch == 1 else "batches"
        return f"update {self.updates}, after {self.batch} {batches} of {self.split}"


class Stop(NamedTuple):
    """One interruption: the word that chose it, its moment, and whether a signal makes it."""

    point: str
    moment: Moment
    by_signal: bool = False

    def __str__(self) -> str:
        return f"{self.point} ({'about ' if self.by_signal else ''}{self.moment})"


def check(points: Sequence[str]) -> None:
    """Refuses words that are no stop points.

    Raises: ConfigError with all of them.
    """
    remedy = "overrides come before the options"
    problems = [
        f"--at {point}: no point to stop at; should be {KINDS}"
        + (f" ({remedy})" if "=" in point else "")
        for point in points
        if not POINT.fullmatch(point)
    ]
    if problems:
        raise errors.ConfigError(problems)


def chosen(
    points: Sequence[str], moments: Sequence[Moment], *, at_random: int = 0, seed: int = 0
) -> list[Stop]:
    """The stops at `points` and at random moments, in the order of the run, each moment once.

    `moments` are those that the run passed, in order. The random ones are a function of `seed`.
    Raises: ConfigError with every point that this run does not pass.
    """
    draw = random.Random(seed)
    problems: list[str] = []
    stops: dict[int, Stop] = {}
    for point in points:
        place = draw.randrange(len(moments)) if point == SIGNAL else _place(point, moments)
        if place is None:
            problems.append(f"--at {point}: {_lacking(point, moments)}")
        else:
            stops.setdefault(place, Stop(point, moments[place], point == SIGNAL))
    if problems:
        raise errors.ConfigError(problems)
    free = [place for place in range(len(moments)) if place not in stops]
    for place in draw.sample(free, min(at_random, len(free))):
        stops[place] = Stop("random", moments[place])
    return [stops[place] for place in sorted(stops)]


def _place(point: str, moments: Sequence[Moment]) -> int | None:
    """The number of the moment that a word chooses; None if there is none."""
    if point.isdecimal():
        return _first(
            moments, lambda moment: moment.split == "train" and moment.updates == int(point)
        )
    word, _, number = point.partition(":")
    training = [place for place, moment in enumerate(moments) if moment.split == "train"]
    heads = [place for place in training if moments[place].batch == 0]
    if word == "test":
        return _second_batch("test", moments, after=training[-1])
    if word == "end":
        return training[-1]
    if word == "epoch":
        return heads[int(number or 1)] if int(number or 1) < len(heads) else None
    epoch = int(number or 1)
    if epoch > len(heads):
        return None
    first = heads[epoch - 1]
    last = max(
        place
        for place in training
        if place < (heads[epoch] if epoch < len(heads) else len(moments))
    )
    return {"mid": (first + last) // 2, "edge": last}.get(word) or _second_batch(
        "valid", moments, after=last
    )


def _second_batch(split: str, moments: Sequence[Moment], *, after: int) -> int | None:
    """Before the second batch of the next pass over `split`; before the first if it is the only
    one.
    """
    first = _first(moments, lambda moment: moment.split == split, after + 1)
    if first is None:
        return None
    is_one_more = (
        first + 1 < len(moments)
        and moments[first + 1].split == split
        and moments[first + 1].batch > 0
    )
    return first + 1 if is_one_more else first


def _first(
    moments: Sequence[Moment], wanted: Callable[[Moment], bool], start: int = 0
) -> int | None:
    return next((place for place in range(start, len(moments)) if wanted(moments[place])), None)


def _lacking(point: str, moments: Sequence[Moment]) -> str:
    training = [moment for moment in moments if moment.split == "train"]
    epochs = sum(moment.batch == 0 for moment in training)
    if point == "test":
        return "this run measures no test set; leave it out"
    if point.isdecimal():
        return f"this run makes {training[-1].updates} updates; choose a number up to that"
    inner = epochs if point.startswith("validation") else epochs - 1
    made = f"this run has {epochs} epoch{'' if epochs == 1 else 's'}"
    return f"{made}; choose one up to {inner}, or more num_epochs"

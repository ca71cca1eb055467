"""What a run logged, read back: every line of metrics.jsonl and every TensorBoard scalar, each under its place."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from andiron import errors

LINES, CURVES = "metrics.jsonl", "tensorboard"
MEASURED_OF_THE_MACHINE = ("time/", "system/")  # no two runs agree in them


class Place(NamedTuple):
    """Where something was logged: after how many updates, and in words what it belongs to."""

    updates: int
    where: str


Logged = dict[
    Place, list[dict[str, str]]
]  # a list: what is there twice must be seen; the values as Python writes them


def lines(folder: Path) -> Logged:
    """The lines of metrics.jsonl by split, update, epoch and kind of mean, in their order.

    Raises: DataError naming a line that is none of a run's.
    """
    found: Logged = {}
    path = folder / LINES
    for number, text in enumerate(
        path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1
    ):
        try:
            line = json.loads(text)
            split, epoch, over = (line.pop(name) for name in ("split", "epoch", "over"))
            place = Place(line.pop("updates"), f"{LINES}: {split}, epoch {epoch}, of the {over}")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise errors.DataError(
                f"{path}, line {number}: no line of a run ({error}); was it cut off or edited?"
            ) from error
        found.setdefault(place, []).append(
            {name: written(value) for name, value in line.items() if is_compared(name)}
        )
    return found


def curves(folder: Path) -> Logged:
    """Every scalar in TensorBoard's files by split, tag and step, as TensorBoard itself shows them."""
    found: Logged = {}
    for below in sorted({path.parent for path in (folder / CURVES).rglob("events.out.tfevents.*")}):
        split = below.relative_to(folder).as_posix()
        for tag, step, value in _scalars(below):
            found.setdefault(Place(step, f"{split}: {tag}"), []).append({"value": written(value)})
    return found


def is_compared(name: str) -> bool:
    """Whether a value of that name is the run's own, and not the machine's."""
    return not name.startswith(MEASURED_OF_THE_MACHINE)


def written(value: Any) -> str:
    """The value so that two are the same text if they are the same bits; nan is nan."""
    return repr(value)


def _scalars(below: Path) -> Iterator[tuple[str, int, float]]:
    logging.getLogger("tensorboard").setLevel(
        logging.ERROR
    )  # says that a resumed run was purged, as it should be
    read = EventAccumulator(str(below), size_guidance={"scalars": 0}).Reload()  # 0: all of them
    for tag in read.Tags()["scalars"]:
        if is_compared(tag):
            yield from ((tag, event.step, event.value) for event in read.Scalars(tag))

"""The logged values of a run: the lines of metrics.jsonl and the scalars of TensorBoard."""

import logging
from pathlib import Path
from typing import NamedTuple

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from andiron import errors
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.wings.runs import logged_lines
from andiron.writers.shipped import event_file
from andiron.writers.shipped.tensorboard import HPARAMS

MOST_BYTES = 2**30  # of an event file: a million log points
MOST_RECORD_BYTES = 2**26  # of one record, such as a picture or a page of text
OF_THE_MACHINE = ("time/", "system/")  # differ in every run


class Place(NamedTuple):
    """Where a value was logged: after how many updates, and a description of file and split."""

    updates: int
    where: str


# values as text that is equal if and only if the bits are (all NaNs are equal); in lists, to detect
# a place that was logged twice
Logged = dict[Place, list[dict[str, str]]]


def lines(folder: RunFolder) -> Logged:
    """The lines of metrics.jsonl by split, update, epoch and kind of mean, in their order.

    Raises: DataError naming a line that is damaged.
    """
    path, logged = folder.metrics, Logged()
    for line in logged_lines.read(path):
        where = f"{path.name}: {line.split}, epoch {line.epoch}, of the {line.over}"
        values = {
            name: repr(value)
            for name, value in line.values.items()
            if not name.startswith(OF_THE_MACHINE)
        }
        logged.setdefault(Place(line.updates, where), []).append(values)
    return logged


def curves(folder: RunFolder) -> Logged:
    """Every scalar in TensorBoard's files by split, tag and step, as TensorBoard shows them.

    Raises: DataError naming a file that cannot be read.
    """
    # TensorBoard warns about the purged steps of a resumed run, which are expected
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    logged = Logged()
    # TensorBoard opens every file with this in its name
    events_files = sorted(folder.tensorboard.rglob("*tfevents*"))
    for path in events_files:
        try:
            _check(path)
        except (OSError, ValueError) as error:
            raise errors.DataError(f"{path}: cannot be read ({error}); restore it") from error
    for event_dir in sorted({path.parent for path in events_files}):
        if event_dir.name == HPARAMS:  # repeats values of whole epochs, which are in metrics.jsonl
            continue
        split = event_dir.relative_to(folder.path).as_posix()
        events = EventAccumulator(str(event_dir), size_guidance={"scalars": 0}).Reload()  # 0: all
        tags = [tag for tag in events.Tags()["scalars"] if not tag.startswith(OF_THE_MACHINE)]
        for tag in tags:
            for event in events.Scalars(tag):
                place = Place(event.step, f"{split}: {tag}")
                logged.setdefault(place, []).append({"value": repr(event.value)})
    return logged


def _check(path: Path) -> None:
    """Refuses an event file that would block TensorBoard's reader, or exhaust its memory.

    Raises: OSError; ValueError for another kind of file, or one larger than any run writes.
    """
    with files.opened(path) as file:
        files.check_size(file, MOST_BYTES)
        for size in event_file.record_sizes(file):
            if size > MOST_RECORD_BYTES:
                limit = f"more than the {MOST_RECORD_BYTES:,} allowed"
                raise ValueError(f"has a record of {size:,} bytes, {limit}")

"""Makes random stretches of a run again, and compares every byte with what the run has on record.
"""

import argparse
import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from andiron import errors, serialization
from andiron.plain import markdown, readable
from andiron.plain.plain_values import is_finite
from andiron.run_folder import RunFolder
from andiron.serialization.safetensors_codec import as_bytes
from andiron.shell.cli import answers, process
from andiron.shell.config.trust import LIST_ALONE, Trust
from andiron.shell.run import named_folder, run_record
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, FLAG, TEXT, closed, list_of
from andiron.wings.commands.declaration import Command
from andiron.wings.runs import logged_lines
from andiron.wings.trained import named_output
from andiron_lab.ask import logged_values
from andiron_lab.ask.engine import Recorded

EXIT_SAME, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2
AS_WRITTEN = "is not as the run wrote it"


@dataclass(frozen=True)
class Segment:
    """The updates `first` to `last`, made again; the numbers of tensors and values compared."""

    first: int
    last: int
    tensors: int = 0
    values: int = 0
    differences: Sequence[str] = ()


@dataclass(frozen=True)
class Recheck:
    """The segments of a run that were made again, of its `updates` up to the newest checkpoint.

    `record` says what differs without an update: files, final weights, summary, curves.
    """

    run: Path
    updates: int
    segments: Sequence[Segment]
    record: Sequence[str]

    @property
    def differences(self) -> list[str]:
        """Everything that differs."""
        return [*self.record, *(line for segment in self.segments for line in segment.differences)]

    @property
    def plain(self) -> dict[str, Any]:
        """The report as JSON."""
        segments = [dataclasses.asdict(segment) for segment in self.segments]
        known = {"run": str(self.run), "updates": self.updates, "segments": segments}
        return {**known, "record": self.record, "same_bits": not self.differences}

    @property
    def as_markdown(self) -> str:
        """The report as a page."""
        rows = [
            [f"{made.first:,} to {made.last:,}", f"{made.tensors:,}", f"{made.values:,}",
             len(made.differences) or "none"] for made in self.segments
        ]  # fmt: skip
        made = sum(segment.last + 1 - segment.first for segment in self.segments)
        part = " of what was made again" * (made < self.updates)
        equal = f"Every byte{part} is the run's own."
        lines = map(readable.printable_line, self.differences)  # with names of a stranger's run
        shown = markdown.fenced("\n".join(lines), "text") if self.differences else equal
        table = markdown.table(["updates", "tensors", "logged values", "differences"], rows)
        run = markdown.fenced(readable.printable_line(str(self.run)), "text")
        said = f"{made:,} of {self.updates:,} updates were made again."
        return "\n\n".join(["# Recheck", run, said, table, shown]) + "\n"


@errors.exits_refused()
def recheck(
    path: Path,
    number: int,
    seed: int,
    trusted: Trust = LIST_ALONE,
    *,
    from_start: bool = False,
) -> Recheck:
    """Makes `number` of the stretches between checkpoints again, chosen by `seed`.

    `from_start` adds the stretch from the beginning to the first checkpoint.
    Raises: RunFolderError for a run without a stretch; errors of `Recorded`.
    """
    folder = RunFolder(path)
    record = [f"{path / name}: {AS_WRITTEN}" for name in run_record.changed(folder)]
    if record:  # what is computed from a changed record says nothing of the run
        return Recheck(path, 0, [], record)
    run = Recorded(folder, trusted)
    places = sorted({*run.saved} | ({run.beginning} if from_start else set()))
    stretches = [*pairwise(places)]
    if not stretches:
        count = f"{len(places)} checkpoint" + ("" if len(places) == 1 else "s")
        raise errors.RunFolderError(
            f"{path}: has {count}, and a stretch lies between two; --from-start begins with the "
            "run, and checkpoint.keep_every_updates=500 keeps more of the next one"
        )
    chosen = random.Random(seed).sample(stretches, min(number, len(stretches)))
    with run.together():
        segments = [
            _segment(run, start + 1, last, from_start=from_start) for start, last in sorted(chosen)
        ]
    differing = [*_weights(run), *_logged(folder)]
    return Recheck(path, places[-1], segments, differing)


def _segment(run: Recorded, first: int, last: int, *, from_start: bool) -> Segment:
    try:
        made = run.updates(first, last, start=first - 1, from_start=from_start)
    except errors.DataError as error:  # a damaged checkpoint, or other data
        return Segment(first, last, differences=[str(error)])
    return Segment(first, last, made.tensors, made.values, [*map(str, made.differences)])


def _weights(run: Recorded) -> Iterator[str]:
    """A line for each file of final weights that no checkpoint of the run has."""
    final = sorted(run.folder.path.glob("model*.safetensors"))
    left = {file: _digest(serialization.load_tensors(file)) for file in final}
    is_read = False
    for updates in sorted(run.saved, reverse=True):  # most runs end with the newest or the best
        if not left:
            return
        with suppress(errors.DataError):  # named by its segment
            if state := run.state_at(updates):
                checkpoint, is_read = state[1], True
                weights = checkpoint.model, *checkpoint.averages.values()
                saved = {*map(_digest, weights)}
                left = {file: digest for file, digest in left.items() if digest not in saved}
    yield from (f"{file}: has the weights of no checkpoint of the run" for file in left if is_read)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    content = sha256()
    for name, tensor in sorted(tensors.items()):
        content.update(f"{name} {tensor.dtype} {[*tensor.shape]}".encode())
        content.update(as_bytes(tensor))
    return content.hexdigest()


def _logged(folder: RunFolder) -> Iterator[str]:
    """A line for each value of the summary and of TensorBoard that metrics.jsonl does not have."""
    by_epoch, by_update = set[tuple[str, str, float]](), dict[tuple[str, int, str], set[float]]()
    for line in logged_lines.read(folder.metrics):
        for name, value in line.values.items():
            if line.over == "epoch":
                by_epoch.add((line.split, name, value))
            key = line.split, line.updates, name
            by_update.setdefault(key, set()).add(float(np.float32(value)))
    for split, metric, value in _summarised(folder):
        if is_finite(value) and (split, metric, value) not in by_epoch:
            yield f"{folder.summary}: has {split}/{metric} {value}, which was not logged"
    names = {name for *_, name in by_update}
    for place, points in logged_values.curves(folder).items():
        split, _, tag = place.where.removeprefix(f"{folder.tensorboard.name}/").partition(": ")
        there = by_update.get((split, place.updates, tag), set())
        for point in points:
            value = float(point["value"])
            if tag in names and is_finite(value) and value not in there:
                logged = ", ".join(map(str, sorted(there))) or "none"
                yield f"{place.where}, update {place.updates}: is {value}; metrics.jsonl: {logged}"


def _summarised(folder: RunFolder) -> Iterator[tuple[str, str, Any]]:
    """The best and last values of the summary, by split and metric."""
    summary = run_record.read_json(folder, folder.summary) if folder.summary.is_file() else {}
    match summary:
        case {"metrics": [*entries]}:
            for entry in entries:
                match entry:
                    case {"split": str(split), "metric": str(metric)}:
                        yield split, metric, entry.get("best")
                        yield split, metric, entry.get("last")


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description=__doc__)
    parser.add_argument("run", help="the folder of a run that has ended, or latest")
    parser.add_argument("--segments", type=declaration.count, default=20, metavar="N",
                        help="how many stretches between two checkpoints (20)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="chooses the stretches (0)")
    parser.add_argument("--from-start", action="store_true",
                        help="also from the beginning to the first checkpoint")  # fmt: skip
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="writes the report there")
    declaration.add_trust(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.markdown:
        named_output.check(options.markdown)
    path = named_folder.run_folder_of(options.run).path
    trusted = declaration.trusted(options)
    done = recheck(
        path, options.segments, options.seed, trusted, from_start=options.from_start
    )
    if options.markdown and process.is_first():
        named_output.write(options.markdown, [done.as_markdown.encode()])
    if not answers.give(done.plain):
        print(done.as_markdown, end="")
    return EXIT_DIFFERENT if done.differences else EXIT_SAME


ANSWERS = [closed({
    "run": TEXT, "updates": COUNT, "segments": list_of(closed({
        "first": COUNT, "last": COUNT, "tensors": COUNT, "values": COUNT,
        "differences": list_of(TEXT),
    })), "record": list_of(TEXT), "same_bits": FLAG,
})]  # fmt: skip
main = Command(
    _parser, ANSWERS, _run, page="ask_a_run.md", failed=EXIT_UNUSABLE, joins_others=True
)

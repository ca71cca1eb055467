"""Compares two runs bit for bit: logged values, newest checkpoints and results."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andiron import checkpoint, errors, serialization
from andiron.checkpoint import LocalStore, Store, contents
from andiron.checkpoint.on_disk import manifest
from andiron.run_folder import RunFolder
from andiron.serialization.safetensors_codec import FROZEN
from andiron.shell.config.leaves import leaves
from andiron_lab.ask.logged_values import Logged, curves, lines

LEFT_OUT = (  # depend on time or place, or on how often an interrupted run saved
    "metric_log.seconds.", "metric_log.writers.", "checkpoints.", "seconds.", "run_dir.",
    "batch_size.", "changes.",
)  # fmt: skip
MISSING = "missing"
OF_THE_TEST = re.compile(": test[,-]")
Values = dict[str, Any]  # tensors, or other values as exact text
Files = dict[str, list[Path]]  # by name; a file may be in several parts
Stores = Callable[[Path], Store]  # by the folder of a run's checkpoints


@dataclass(frozen=True)
class Difference:
    """A difference of a run from the expected one, after `updates` updates if known."""

    where: str
    what: str
    expected: str
    found: str
    updates: int | None = None

    def __str__(self) -> str:
        when = "" if self.updates is None else f", update {self.updates}"
        return f"{self.where}{when}: {self.what} is {self.found}, not {self.expected}"

    @property
    def size(self) -> str:
        """By how much two numbers differ, absolutely and relative to the expected one, as text."""
        try:
            ours, theirs = (float(side.partition(" (")[0]) for side in (self.expected, self.found))
        except ValueError:  # texts
            return ""
        gap = abs(theirs - ours)
        return f", by {gap:.3g} (relative {gap / abs(ours):.3g})" if ours else f", by {gap:.3g}"


class Counts(NamedTuple):
    """The numbers of values that are compared."""

    tensors: int
    values: int
    scalars: int

    def __str__(self) -> str:
        return (
            f"{self.tensors:,} tensors, {self.values:,} logged values, "
            f"{self.scalars:,} TensorBoard scalars"
        )


def compare(straight: Path, other: Path, stores: Stores = LocalStore) -> list[Difference]:
    """Every difference between two finished runs, in the order of training.

    Logged values come first, by update, then the newest checkpoint, final weights and the summary.
    `stores` returns the store of a run's checkpoints.
    Raises: RunFolderError if a folder holds no finished run; DataError if a file is damaged.
    """
    one, two = finished(straight), finished(other)
    expected, actual = lines(one), lines(two)
    differences = [
        *_order_differences(expected, actual, one.metrics.name),
        *_logged_differences(expected, actual),
        *_logged_differences(curves(one), curves(two)),
    ]
    differences.sort(key=lambda difference: difference.updates or 0)  # stable: lines before curves
    return [*differences, *_file_differences(_files(one, stores), _files(two, stores))]


def counts(path: Path, stores: Stores = LocalStore) -> Counts:
    """The numbers of compared values of a finished run.

    Raises: as `compare`.
    """
    folder = finished(path)
    values, scalars = (
        sum(len(values) for entries in logged.values() for values in entries)
        for logged in (lines(folder), curves(folder))
    )
    read_files = map(_read, _files(folder, stores).values())
    return Counts(
        sum(isinstance(value, Tensor) for read in read_files for value in read.values()),
        values,
        scalars,
    )


def of_stretch(
    run: RunFolder, again: RunFolder, updates: range, saved: tuple[Path, Path] | None
) -> tuple[int, int, list[Difference]]:
    """The differences of `updates` that were made again, in the order of training; not the test's.

    `saved` are the checkpoints of both, if the run has one after the last of them. Also the numbers
    of tensors and of logged values that are compared.
    Raises: DataError if a file is damaged.
    """
    ours, theirs = (
        {place: entries for place, entries in lines(folder).items()
         if place.updates in updates and not OF_THE_TEST.search(place.where)}
        for folder in (run, again)
    )
    unsorted = _logged_differences(ours, theirs)
    differences = sorted(unsorted, key=lambda difference: difference.updates or 0)
    values, files = sum(len(line) for entries in ours.values() for line in entries), {}
    if saved is not None:
        files = _inner_files(saved[0])
        differences += of_checkpoints(*saved)
    weights = [paths for name, paths in files.items() if name != contents.STATE]
    return sum(len(_read(paths)) for paths in weights), values, differences


def of_checkpoints(expected: Path, actual: Path) -> Iterator[Difference]:
    """The differences of the states in two checkpoints' folders."""
    return _file_differences(_inner_files(expected), _inner_files(actual))


def finished(path: Path) -> RunFolder:
    """The folder of a finished run.

    Raises: RunFolderError if the run is not finished.
    """
    folder = RunFolder(path)
    if not folder.model.is_file():
        no_model = f"there is no {folder.model.name} in it"
        reason = no_model if path.is_dir() else "there is no such folder"
        raise errors.RunFolderError(f"{path}: {reason}; name the folder of a run that is finished")
    return folder


def _order_differences(expected: Logged, actual: Logged, file: str) -> Iterator[Difference]:
    """The first line that differs between two files with the same lines in another order."""
    if expected.keys() != actual.keys():
        return  # each missing line is reported by itself
    for places in zip(expected, actual, strict=True):
        if places[0] != places[1]:
            ours, theirs = (f"{where.partition(': ')[2]}, update {at}" for at, where in places)
            yield Difference(file, "the line in this place", ours, theirs, min(places).updates)
            return


def _logged_differences(expected: Logged, actual: Logged) -> Iterator[Difference]:
    for place in expected | actual:
        ours, theirs = expected.get(place, []), actual.get(place, [])
        if len(ours) != len(theirs):
            expected_times, times = (
                {0: MISSING, 1: "there once"}.get(number, f"there {number} times")
                for number in (len(ours), len(theirs))
            )
            yield Difference(
                place.where, "what was logged", expected_times, times, place.updates
            )
        for one, other in zip(ours, theirs, strict=False):
            yield from value_differences(place.where, one, other, place.updates)


def _files(folder: RunFolder, stores: Stores) -> Files:
    """The compared files of a run, by their names in a difference."""
    named, store = {}, stores(folder.checkpoints)
    for name in checkpoint.names(store)[-1:]:
        files = _inner_files(store.fetch(name))
        named = {f"newest checkpoint: {name}": paths for name, paths in files.items()}
    final = [*sorted(folder.path.glob("model*.safetensors")), folder.summary]
    return named | {path.name: [path] for path in final if path.exists()}


def _inner_files(folder: Path) -> Files:
    """The compared files of a checkpoint."""
    weights = {*folder.glob("*.safetensors")} - {folder / FROZEN}  # part of the model's
    named: Files = {}
    for path in [*sorted(weights), folder / contents.STATE]:
        named.setdefault(contents.undivided(path.name), []).append(path)
    return named


def _read(paths: list[Path]) -> Values:
    path = paths[0]
    if path.suffix == ".safetensors":
        parts = map(serialization.load_tensors, paths)
        return dict(sorted(tensor for part in parts for tensor in part.items()))
    flat = leaves(manifest.read_json(path), opens_lists=True)
    named = ((".".join(key), value) for key, value in flat)
    # a summary has the calls and seconds of observers in one process; a checkpoint their state
    of_process = () if path.name == contents.STATE else ("observers.",)
    left_out = (*LEFT_OUT, *of_process)
    return {name: repr(value) for name, value in named if not f"{name}.".startswith(left_out)}


def _file_differences(expected: Files, actual: Files) -> Iterator[Difference]:
    for name in expected | actual:
        one, other = ("there" if name in paths else MISSING for paths in (expected, actual))
        if one == other:
            yield from value_differences(name, _read(expected[name]), _read(actual[name]))
        else:
            yield Difference(name, "the file", one, other)


def value_differences(
    where: str, expected: Values, actual: Values, updates: int | None = None
) -> Iterator[Difference]:
    """The differences of two sides by name, each with its first element that differs."""
    for name in expected | actual:
        one, other = expected.get(name, MISSING), actual.get(name, MISSING)
        if _type_of(one) != _type_of(other):
            yield Difference(where, name, _type_of(one), _type_of(other), updates)
        elif isinstance(one, Tensor):
            places = (_bits(one) != _bits(other)).any(dim=1).nonzero().flatten()
            for first in places[:1].tolist():
                number = f"the first of {len(places)} elements of {one.numel()} that differ,"
                what = f"{name}[{first}], {number}"
                yield Difference(where, what, _element(one, first), _element(other, first))


def _type_of(value: object) -> str:
    """The type and shape of a tensor; other values are already text."""
    if not isinstance(value, Tensor):
        return str(value)
    return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}"


def _bits(tensor: Tensor) -> Tensor:
    """The bytes of each element as a row."""
    return tensor.contiguous().reshape(-1, 1).view(torch.uint8)


def _element(tensor: Tensor, number: int) -> str:
    """An element as a number with its bytes, which distinguish NaNs."""
    element = tensor.reshape(-1)[number]
    bits = bytes(reversed(_bits(element).flatten().tolist())).hex()
    return f"{element.item()!r} (0x{bits})"

"""Two runs compared bit for bit: what they logged, their newest checkpoints, their results."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors, files, serialization
from andiron.checkpoint import contents, store
from andiron.config.leaves import leaves
from andiron.run import logged_values
from andiron.run.logged_values import Logged
from andiron.run_folder import RunFolder

LEFT_OUT = (  # depend on time or place, or on how often an interrupted run saved
    "metric_log.seconds", "metric_log.writers", "checkpoints", "seconds", "run_dir",
)  # fmt: skip
MISSING = "missing"
Values = Mapping[str, Any]  # tensors, or other values as exact text


@dataclass(frozen=True)
class Difference:
    """One difference of another run from the expected one; `updates` says when, if it is known."""

    where: str
    what: str
    expected: str
    found: str
    updates: int | None = None

    def __str__(self) -> str:
        when = "" if self.updates is None else f", update {self.updates}"
        return f"{self.where}{when}: {self.what} is {self.found}, not {self.expected}"


@dataclass(frozen=True)
class Counts:
    """How much of a run is compared."""

    tensors: int
    values: int
    scalars: int

    def __str__(self) -> str:
        logged = f"{self.values:,} logged values, {self.scalars:,} TensorBoard scalars"
        return f"{self.tensors:,} tensors, {logged}"


def compare(straight: Path, other: Path) -> list[Difference]:
    """Every difference between two finished runs, in the order of training; none if bits are equal.

    First what was logged, by update; then the newest checkpoint, final weights and the summary.
    Raises: RunFolderError if a folder holds no finished run; DataError if a file is damaged.
    """
    for path in (straight, other):
        check_finished(path)
    one, two = RunFolder(straight), RunFolder(other)
    expected, found = logged_values.lines(one), logged_values.lines(two)
    differences = [
        *_line_order(expected, found, one.metrics.name),
        *_in_logged(expected, found),
        *_in_logged(logged_values.curves(one), logged_values.curves(two)),
    ]
    differences.sort(key=lambda each: each.updates or 0)  # stable: lines before curves
    return [*differences, *_in_files(_contents(one), _contents(two))]


def counts(path: Path) -> Counts:
    """How much of a finished run is compared.

    Raises: as `compare`.
    """
    check_finished(path)
    folder = RunFolder(path)
    tensors = [
        value for read in _contents(folder).values() for value in read().values()
        if isinstance(value, Tensor)
    ]  # fmt: skip
    values, scalars = (
        sum(len(values) for entries in logged.values() for values in entries)
        for logged in (logged_values.lines(folder), logged_values.curves(folder))
    )
    return Counts(len(tensors), values, scalars)


def check_finished(path: Path) -> None:
    """Refuses a folder without a finished run.

    Raises: RunFolderError.
    """
    model = RunFolder(path).model
    if not model.is_file():
        why = f"there is no {model.name} in it" if path.is_dir() else "there is no such folder"
        raise errors.RunFolderError(f"{path}: {why}; name the folder of a run that is finished")


def newest_checkpoint(folder: RunFolder) -> Path | None:
    """The folder of a run's newest checkpoint; None if it saved none."""
    latest = folder.checkpoints / store.LATEST
    if latest.exists():
        return latest.parent / str(files.read_json(latest)["name"])
    return max(latest.parent.glob("step-*"), key=_numbers, default=None)


def _numbers(folder: Path) -> list[int]:
    """The numbers in a name such as step-40.2: 40 and 2."""
    numbers = folder.name.removeprefix("step-").split(".")
    return [int(number) if number.isdecimal() else -1 for number in numbers]


def _line_order(expected: Logged, found: Logged, file: str) -> Iterator[Difference]:
    """The first place where two files with the same lines have them in another order."""
    if Counter(expected.keys()) != Counter(found.keys()):
        return  # each missing line is reported by itself
    for one, other in zip(expected, found, strict=True):
        if one != other:
            ours, theirs = (
                f"{place.where.removeprefix(f'{file}: ')}, update {place.updates}"
                for place in (one, other)
            )
            updates = min(one, other).updates
            yield Difference(file, "the line in this place", ours, theirs, updates)
            return


def _in_logged(expected: Logged, found: Logged) -> Iterator[Difference]:
    for place in dict.fromkeys([*expected, *found]):
        updates, where = place
        ours, theirs = expected.get(place, []), found.get(place, [])
        if len(ours) != len(theirs):
            times = _times(len(ours)), _times(len(theirs))
            yield Difference(where, "what was logged", *times, updates)
        for one, other in zip(ours, theirs, strict=False):
            yield from _in_values(where, one, other, updates)


def _times(number: int) -> str:
    return {0: MISSING, 1: "there once"}.get(number, f"there {number} times")


def _contents(folder: RunFolder) -> dict[str, Callable[[], Values]]:
    """What reads each compared file of a run, by the file's name."""
    saved = newest_checkpoint(folder)
    inner = [] if saved is None else [*sorted(saved.glob("*.safetensors")), saved / contents.STATE]
    final = [*sorted(folder.path.glob("model*.safetensors")), folder.summary]
    paths = {f"newest checkpoint: {path.name}": path for path in inner}
    paths |= {path.name: path for path in final}
    return {name: partial(_read, path) for name, path in paths.items() if path.exists()}


def _read(path: Path) -> Values:
    if path.suffix == ".safetensors":
        tensors = serialization.load_tensors(path)
        return {name: tensors[name] for name in sorted(tensors)}
    flat = {".".join(key): each for key, each in leaves(files.read_json(path), opens_lists=True)}
    return {
        name: logged_values.exact(value)
        for name, value in flat.items()
        if not any(name == out or name.startswith(f"{out}.") for out in LEFT_OUT)
    }


def _in_files(
    expected: Mapping[str, Callable[[], Values]], found: Mapping[str, Callable[[], Values]]
) -> Iterator[Difference]:
    for name in dict.fromkeys([*expected, *found]):
        if name in expected and name in found:
            yield from _in_values(name, expected[name](), found[name]())
        else:
            sides = ("there", MISSING) if name in expected else (MISSING, "there")
            yield Difference(name, "the file", *sides)


def _in_values(
    where: str, expected: Values, found: Values, updates: int | None = None
) -> Iterator[Difference]:
    for name in dict.fromkeys([*expected, *found]):
        one, other = expected.get(name, MISSING), found.get(name, MISSING)
        if isinstance(one, Tensor) and isinstance(other, Tensor) and _kind(one) == _kind(other):
            yield from _in_tensor(where, name, one, other)
        elif isinstance(one, Tensor) or isinstance(other, Tensor) or one != other:
            yield Difference(where, name, _kind(one), _kind(other), updates)


def _in_tensor(where: str, name: str, expected: Tensor, found: Tensor) -> Iterator[Difference]:
    """The first element that differs, of two tensors of the same type and shape."""
    differing = (_bits(expected) != _bits(found)).any(dim=1).nonzero().flatten()
    if len(differing):
        first = int(differing[0])
        of = f"elements of {expected.numel()} that differ,"
        what = f"{name}[{first}], the first of {len(differing)} {of}"
        yield Difference(where, what, _element(expected, first), _element(found, first))


def _kind(value: Any) -> str:
    """The type and shape of a tensor; other values are text already."""
    if not isinstance(value, Tensor):
        return str(value)
    return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}"


def _bits(tensor: Tensor) -> Tensor:
    """The bytes of each element as a row."""
    return tensor.contiguous().reshape(-1, 1).view(torch.uint8)


def _element(tensor: Tensor, number: int) -> str:
    """One element as a number, and its bytes, which tell two NaNs apart."""
    element = tensor.reshape(-1)[number]
    bits = bytes(reversed(_bits(element).flatten().tolist())).hex()
    return f"{element.item()!r} (0x{bits})"

"""Two runs that should be the same run, compared bit for bit: what they logged and what they came to."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors, files, serialization
from andiron.config.leaves import leaves
from proofs import logged_values
from proofs.logged_values import Logged, Place

MODEL, SUMMARY, STATE = "model.safetensors", "summary.json", "state.json"
LEFT_OUT = {  # what is a matter of time or place, by file; all below it is left out too
    STATE: {
        "metric_log.seconds": "how long training took",
        "metric_log.writers": "sizes of the files that are logged to",
        "checkpoints": "which ones are kept: an interrupted run has saved more of them",
    },
    SUMMARY: {"seconds": "how long training took", "run_dir": "where the run lies"},
}
MISSING = "missing"


@dataclass(frozen=True)
class Difference:
    """One thing in which the other run is not the straight one; `updates`: when it came to be, where that can be told."""

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
        return f"{self.tensors:,} tensors, {self.values:,} logged values, {self.scalars:,} TensorBoard scalars"


def compare(straight: Path, other: Path) -> list[Difference]:
    """Every difference between two finished runs, in the order in which they came to be; none if they are the same bits.

    First what was logged, by update; then the newest checkpoint, the final weights and averages, and the summary.
    Raises: RunFolderError if one of them holds no finished run; DataError if a file of theirs cannot be read.
    """
    for folder in (straight, other):
        check_finished(folder)
    expected, found = logged_values.lines(straight), logged_values.lines(other)
    differences = [
        *_in_order(expected, found),
        *_of_logged(expected, found),
        *_of_logged(logged_values.curves(straight), logged_values.curves(other)),
    ]
    differences.sort(
        key=lambda difference: difference.updates or 0
    )  # a stable sort: lines before curves
    saved, other_saved = newest_checkpoint(straight), newest_checkpoint(other)
    differences += [
        *_of_tensors("newest checkpoint: ", _weights(saved, "*"), _weights(other_saved, "*")),
        *_of_values(
            f"newest checkpoint: {STATE}", _plain(saved, STATE), _plain(other_saved, STATE)
        ),
        *_of_tensors("", _weights(straight, "model*"), _weights(other, "model*")),
        *_of_values(SUMMARY, _plain(straight, SUMMARY), _plain(other, SUMMARY)),
    ]
    return differences


def counts(folder: Path) -> Counts:
    """How much there is in a finished run to be compared.

    Raises: as `compare`.
    """
    check_finished(folder)
    paths = [
        *_weights(newest_checkpoint(folder), "*").values(),
        *_weights(folder, "model*").values(),
    ]
    return Counts(
        tensors=sum(len(serialization.load_tensors(path)) for path in paths),
        values=_number(logged_values.lines(folder)),
        scalars=_number(logged_values.curves(folder)),
    )


def check_finished(folder: Path) -> None:
    """Refuses what is no folder of a run that came to its end.

    Raises: RunFolderError.
    """
    if not (folder / MODEL).is_file():
        why = f"there is no {MODEL} in it" if folder.is_dir() else "there is no such folder"
        raise errors.RunFolderError(f"{folder}: {why}; name the folder of a run that is finished")


def newest_checkpoint(folder: Path) -> Path | None:
    """The folder of a run's newest checkpoint; None if it has saved none."""
    latest = folder / "checkpoints" / "latest.json"
    if latest.exists():
        return latest.parent / str(files.read_json(latest)["name"])
    return max(latest.parent.glob("step-*"), key=_age, default=None)


def _age(folder: Path) -> list[int]:
    """Of step-40.2: 40, 2."""
    numbers = folder.name.removeprefix("step-").split(".")
    return [int(number) if number.isdecimal() else -1 for number in numbers]


def _number(found: Logged) -> int:
    return sum(len(values) for entries in found.values() for values in entries)


def _in_order(expected: Logged, found: Logged) -> Iterator[Difference]:
    """The first line that two files with the same lines do not have in the same place."""
    if Counter(expected.keys()) != Counter(found.keys()):
        return  # told line by line
    for one, other in zip(expected, found, strict=True):
        if one != other:
            yield Difference(
                logged_values.LINES,
                "the line in this place",
                _named(one),
                _named(other),
                min(one, other).updates,
            )
            return


def _named(place: Place) -> str:
    return f"{place.where.removeprefix(logged_values.LINES + ': ')}, update {place.updates}"


def _of_logged(expected: Logged, found: Logged) -> Iterator[Difference]:
    for place in dict.fromkeys([*expected, *found]):
        ours, theirs = expected.get(place, []), found.get(place, [])
        if len(ours) != len(theirs):
            yield Difference(
                place.where, "what was logged", _times(ours), _times(theirs), place.updates
            )
        for one, other in zip(ours, theirs, strict=False):
            yield from _of_values(place.where, one, other, place.updates)


def _times(entries: Sequence[object]) -> str:
    return {0: MISSING, 1: "there once"}.get(len(entries), f"there {len(entries)} times")


def _of_values(
    where: str, expected: Mapping[str, str], found: Mapping[str, str], updates: int | None = None
) -> Iterator[Difference]:
    for name in dict.fromkeys([*expected, *found]):
        one, other = expected.get(name, MISSING), found.get(name, MISSING)
        if one != other:
            yield Difference(where, name, one, other, updates)


def _plain(folder: Path | None, name: str) -> dict[str, str]:
    """The values in a JSON file by their dotted names, less those left out; of no file, none."""
    path = folder / name if folder else None
    if path is None or not path.exists():
        return {}
    left_out = tuple(LEFT_OUT[name])
    values = {".".join(key): each for key, each in leaves(files.read_json(path), opens_lists=True)}
    return {
        key: logged_values.written(value)
        for key, value in values.items()
        if not _is_below(key, left_out)
    }


def _is_below(key: str, names: tuple[str, ...]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def _weights(folder: Path | None, kind: str) -> dict[str, Path]:
    """The files of tensors in a folder, by name."""
    paths = sorted(folder.glob(f"{kind}.safetensors")) if folder else []
    return {path.name: path for path in paths}


def _of_tensors(
    prefix: str, expected: Mapping[str, Path], found: Mapping[str, Path]
) -> Iterator[Difference]:
    for name in dict.fromkeys([*expected, *found]):
        if name not in expected or name not in found:
            yield Difference(
                f"{prefix}{name}",
                "the file",
                *(("there", MISSING) if name in expected else (MISSING, "there")),
            )
            continue
        ours, theirs = (
            serialization.load_tensors(expected[name]),
            serialization.load_tensors(found[name]),
        )
        for tensor in dict.fromkeys([*sorted(ours), *sorted(theirs)]):
            difference = _of_tensor(f"{prefix}{name}", tensor, ours.get(tensor), theirs.get(tensor))
            if difference:
                yield difference


def _of_tensor(
    where: str, name: str, expected: Tensor | None, found: Tensor | None
) -> Difference | None:
    """How the two differ, if they do: in kind, or at the first element."""
    if (
        expected is None
        or found is None
        or (expected.dtype, expected.shape) != (found.dtype, found.shape)
    ):
        return None if expected is found else Difference(where, name, _kind(expected), _kind(found))
    ours, theirs = _bits(expected), _bits(found)
    if torch.equal(ours, theirs):
        return None
    differing = (ours != theirs).any(dim=1).nonzero().flatten()
    first = int(differing[0])
    what = f"{name}[{first}], the first of {len(differing)} elements of {len(ours)} that differ,"
    return Difference(where, what, _exact(expected, first), _exact(found, first))


def _kind(tensor: Tensor | None) -> str:
    return (
        MISSING
        if tensor is None
        else f"{str(tensor.dtype).removeprefix('torch.')} {[*tensor.shape]}"
    )


def _bits(tensor: Tensor) -> Tensor:
    """The bytes of each element in a row of their own."""
    return tensor.contiguous().reshape(-1, 1).view(torch.uint8)


def _exact(tensor: Tensor, number: int) -> str:
    """One element as a number, and its bytes, which tell two nans apart."""
    element = tensor.reshape(-1)[number]
    bits = bytes(reversed(_bits(element).flatten().tolist())).hex()
    return f"{element.item()!r} (0x{bits})"

"""Saves and loads any module: its parameters and persistent buffers, by name."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from andiron import errors
from andiron.plain import patterns
from andiron.plain.readable import joined
from andiron.serialization import layouts, matching
from andiron.serialization.matching import Differences, Remedy
from andiron.serialization.record import Record, Tensors, WritesRecords, load, save

SLACK = 4  # a record may hold more than the module takes from it
LAYOUT = "layout"  # key in the record's values: a square matrix does not show a transposition


def save_file(
    module: nn.Module,
    path: Path | str,
    recorder: WritesRecords | None = None,
    *,
    layout: str = "torch",
) -> None:
    """Writes the parameters and persistent buffers of a module, atomically.

    The file records its layout. A tensor with two names (tied weights) is written under both.
    A recorder of the lab writes another format or precision than safetensors of the module's own.
    """
    tensors = {name: place.in_file for name, place in layouts.places(module, layout).items()}
    write = save if recorder is None else recorder.record
    write(Record(tensors, {LAYOUT: layout}), path)


def load_file(
    module: nn.Module,
    path: Path | str,
    *,
    partial: bool = False,
    rename: Mapping[str, str] | None = None,
    layout: str | None = None,
) -> Differences:
    """Copies a record into a module's own tensors, casting to their dtype and device.

    `partial` copies the tensors that fit by name and shape, and returns all differences; without it
    there are none, and replaces one prefix that differs (see `differing_prefix`). `rename`
    maps regular expressions to replacements, applied in order to the file's names. `layout`
    defaults to the file's, or torch's. Tied weights stay tied. BatchNorm's count of batches, which
    Burn lacks, keeps its value.
    Raises, before a tensor is changed: DataError if the file is damaged; MismatchError if it does
    not fit, with all differences, or if `rename` matches nothing or makes two names equal.
    """
    record = load(path, most_numbers=most_numbers(module))
    return load_record(module, record, path, partial=partial, rename=rename, layout=layout)


def load_record(
    module: nn.Module,
    record: Record,
    path: Path | str,
    *,
    partial: bool = False,
    rename: Mapping[str, str] | None = None,
    layout: str | None = None,
    exclude: Sequence[str] = (),
    judge: Callable[[Differences], None] = lambda differences: None,
    remedy: Remedy | None = None,
) -> Differences:
    """Loads a record that was read from `path`, as `load_file` does.

    Nothing is copied from or to names that match a regular expression of `exclude`. `judge` may
    refuse the differences before a tensor is changed. `remedy` is as in `differing_prefix`.
    """
    places = _places(module, record, path, layout)
    tensors, prefix = renamed(record.tensors, rename or {}), ("", "")
    if partial:
        prefix = matching.differing_prefix(path, tensors, places, remedy)
        tensors = _with_prefix(tensors, places, *prefix)
    excluded = _excluded(exclude, {**places, **tensors})
    tensors = {name: tensors[name] for name in tensors if name not in excluded}
    differences = dataclasses.replace(
        matching.differences(places, tensors), prefix=prefix, excluded=excluded
    )
    if partial and not differences.fitting:
        reasons = (
            dict.fromkeys(excluded, "is excepted")
            | dict.fromkeys(differences.unexpected, "is only in the file")
        )  # fmt: skip
        unfit = matching.shown(differences.unfit or reasons)
        raise errors.MismatchError(f"{path}: no tensor fits by shape: {unfit}")
    if differences and not partial:
        raise errors.MismatchError(
            f"{path} does not fit the {type(module).__name__}; nothing was loaded:\n"
            f"{matching.described(differences, places, tensors)}\n"
            "load the record of this model; or load what fits (partial=True), map its names "
            "(rename={regex: name}), or name its layout (layout='burn')"
        )
    judge(differences)
    matching.copy(places, tensors, differences.fitting)
    return differences


def _with_prefix(
    tensors: Tensors, places: layouts.Places, old: str, new: str
) -> dict[str, Tensor]:
    """The tensors with `new` for `old` before a name that does not fit, unless that is taken."""
    turned = {name: new + name[len(old) :] for name in tensors if name.startswith(old)}
    kept = {name for name in tensors if name in places or turned.get(name) in tensors}
    return {name if name in kept else turned.get(name, name): tensors[name] for name in tensors}


def _places(
    module: nn.Module, record: Record, path: Path | str, layout: str | None
) -> layouts.Places:
    """The module's tensors by their names in the layout of the record, or in `layout`."""
    written = layout_of(record)
    places = layouts.places(module, layout or written)  # refuses an unknown layout
    if layout and LAYOUT in record.values and layout != written:
        raise errors.MismatchError(
            f"{path} has the layout {written!r}, not {layout!r}; "
            f"pass layout={written!r}, or leave it out"
        )
    return places


def _excluded(exclude: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """The names that match an expression of `exclude`, each of which matches one."""
    excluded: dict[str, Any] = {}
    for regex in exclude:
        matches = patterns.searched(regex, names)
        if not matches:
            raise errors.MismatchError(f"except {regex!r} matches no name; correct it")
        excluded |= matches
    return (*excluded,)


def most_numbers(module: nn.Module) -> int:
    """The most elements of a record for a module: little more than in the module."""
    tensors = itertools.chain(module.parameters(), module.buffers())
    return SLACK * sum(tensor.numel() for tensor in tensors if not is_lazy(tensor))


def layout_of(record: Record) -> str:
    """The recorded layout of a record's tensors, or torch's."""
    return str(record.values.get(LAYOUT, "torch"))


def renamed(tensors: Tensors, rename: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors with regular expressions replaced in their names, in order.

    Raises: MismatchError if an expression is malformed or matches nothing, or two names are equal.
    """
    names = list(tensors)
    for pattern, new in rename.items():
        try:
            replaced = patterns.replaced(pattern, new, names)
        except ValueError as error:
            raise errors.MismatchError(
                f"rename {pattern!r} to {new!r}: {error}; correct it"
            ) from error
        if not any(number for _, number in replaced):
            raise errors.MismatchError(
                f"rename {pattern!r} matches no name; there are "
                f"{joined(names, matching.MOST_NAMES)}: "
                "correct it, or leave it out"
            )
        names = [name for name, _ in replaced]
    olds: dict[str, str] = {}
    for old, name in zip(tensors, names, strict=True):
        if name in olds:
            raise errors.MismatchError(
                f"rename makes {olds[name]!r} and {old!r} both {name!r}; narrow the expression"
            )
        olds[name] = old
    return {name: tensors[old] for name, old in olds.items()}

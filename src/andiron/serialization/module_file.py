"""Any module to a file and back: its parameters and persistent buffers, by name."""

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from andiron import errors
from andiron.serialization import layouts, matching
from andiron.serialization.matching import Differences
from andiron.serialization.record import Record
from andiron.serialization.recorder import Recorder, load

EXACT = Recorder()
LAYOUT = "layout"  # of a record's tensors, among its values: a square matrix does not show that it is transposed


def save_file(
    module: nn.Module, path: Path | str, recorder: Recorder = EXACT, *, layout: str = "torch"
) -> None:
    """Writes a module's parameters and persistent buffers, whole or not at all; the file tells its layout.

    A tensor with two names (tied weights) is written under both.
    """
    tensors = {name: place.shown for name, place in layouts.places(module, layout).items()}
    recorder.record(Record(tensors, {LAYOUT: layout}), path)


def load_file(
    module: nn.Module,
    path: Path | str,
    *,
    partial: bool = False,
    rename: Mapping[str, str] | None = None,
    layout: str | None = None,
) -> Differences:
    """Copies a record into a module's own tensors, casting to their dtype and device; tied weights stay tied.

    `rename` maps regular expressions to replacements, applied in order to the file's names. `partial` takes what fits by name
    and shape; what was left is returned (without it, nothing is). BatchNorm's count of batches, which Burn has not, stays as it is.
    `layout` is as the file tells, or else torch's.
    Raises, before a tensor is touched: DataError if the file is damaged; MismatchError if it does not fit, with all
    differences, or if a `rename` matches nothing or makes two names one.
    """
    record = load(path)
    written = layout_of(record)
    places = layouts.places(module, layout or written)
    if layout and LAYOUT in record.values and layout != written:
        raise errors.MismatchError(
            f"{path} is laid out as {written!r}, not {layout!r}; say layout={written!r}, or leave it out"
        )
    tensors = renamed(record.tensors, rename or {})
    found = matching.differences(places, tensors)
    fits = [name for name in places if name in tensors and name not in found.unfit]
    if found and not (partial and fits):
        why = "nothing fits, not even in part" if partial else "nothing was loaded"
        raise errors.MismatchError(
            f"{path} does not fit the {type(module).__name__}; {why}:\n{matching.told(found, places, tensors)}\n"
            "load the record of this model; or take what fits (partial=True), map its names (rename={regex: name}), "
            "or say how it is laid out (layout='burn')"
        )
    matching.copy(places, tensors, leave=found)
    return found


def layout_of(record: Record) -> str:
    """How a record's tensors are laid out: as it tells, or else as torch does."""
    return str(record.values.get(LAYOUT, "torch"))


def renamed(tensors: Mapping[str, Tensor], rename: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors under the names that regular expressions and their replacements, applied in order, make of theirs.

    Raises: MismatchError if an expression is none or matches nothing, or if two names become one.
    """
    names = {name: name for name in tensors}
    for pattern, new in rename.items():
        try:
            matches = [name for name, now in names.items() if re.search(pattern, now)]
            names |= {name: re.sub(pattern, new, names[name]) for name in matches}
        except re.error as error:
            raise errors.MismatchError(
                f"rename {pattern!r} to {new!r} is no regular expression ({error}); mend it"
            ) from error
        if not matches:
            there = ", ".join(names.values())
            raise errors.MismatchError(
                f"rename {pattern!r} matches none of the names; there are {there}: mend it, or leave it out"
            )
    olds: dict[str, str] = {}
    for old, name in names.items():
        if olds.setdefault(name, old) != old:
            raise errors.MismatchError(
                f"rename makes {olds[name]!r} and {old!r} both {name!r}; narrow the expression"
            )
    return {name: tensors[old] for old, name in names.items()}

"""Compares a record's tensors with a module's: all differences, before any is copied."""

import itertools
import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from andiron import errors
from andiron.plain import wings
from andiron.plain.readable import joined, shortened
from andiron.serialization.layouts import Place, Places
from andiron.serialization.record import Tensors

MOST_NAMES = 6  # of each side in a message
MAX_COMPARED = 20_000  # pairs of names; the nearest of thousands for each of thousands take minutes


Prefix = tuple[str, str]
Remedy = Callable[[str, str], str]


@dataclass(frozen=True)
class Differences:
    """The differences of a record from a module, by tensor name; false if there are none."""

    missing: tuple[str, ...] = ()  # only in the module
    unexpected: tuple[str, ...] = ()  # only in the record
    unfit: dict[str, str] = field(default_factory=dict)  # in both; why the record's does not fit
    fitting: tuple[str, ...] = field(default=(), compare=False)
    other_kind: tuple[str, ...] = ()  # names in `unfit` with integers for floats, or the like
    prefix: Prefix = ("", "")  # of names in the record, and of the module's in its place
    excluded: tuple[str, ...] = ()  # names in either that were left out

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.unfit)


def differences(places: Places, tensors: Tensors) -> Differences:
    """All differences between the tensors of a record and the places of a module.

    A tensor with several names in the module (tied weights) is missing only if the record lacks
    them all.
    """
    memory = {name: _memory(place.own) for name, place in places.items()}
    shared = [name for name in places if name in tensors]
    present = {memory[name] for name in shared}
    unfit: dict[str, str] = {}
    first: dict[object, str] = {}  # name of each tensor of the module
    for name in shared:
        reason = _why_unfit(places[name], tensors[name])
        if not reason:
            twin = first.setdefault(memory[name], name)
            reason = "" if twin == name else _why_not_tied(places, tensors, name, twin)
        if reason:
            unfit[name] = reason
    return Differences(
        missing=tuple(name for name in places if memory[name] not in present),
        unexpected=tuple(name for name in tensors if name not in places),
        unfit=unfit,
        fitting=tuple(name for name in shared if name not in unfit),
        other_kind=tuple(
            name for name in unfit if _kind(tensors[name]) != _kind(places[name].in_file)
        ),
    )


def differing_prefix(
    source: object,
    names: Collection[str],
    own: Collection[str],
    remedy: Remedy | None = None,
) -> Prefix:
    """The only prefix that another, in its place, turns into names of a module.

    It does so for more than half of the names. Names that fit keep theirs; nothing is replaced if
    one of them is in the same outermost module, whose part may be another.

    >>> differing_prefix("file", ["_orig_mod.0.bias", "_orig_mod.1.bias"], ["0.bias", "1.bias"])
    ('_orig_mod.', '')

    Raises: MismatchError if no name fits, nor one prefix; `remedy` gives the line that replaces one
    prefix by another, by default a command.
    """
    fitting = {*names} & {*own}
    rest, missing = ([name for name in side if name not in fitting] for side in (names, own))
    best, most = best_prefixes(rest, missing)
    if len(best) == 1 and 2 * most > len(names):
        if {_outermost(prefix) for prefix in best[0]}.isdisjoint(map(_outermost, fitting)):
            return best[0]
    if fitting:
        return "", ""
    fits = [f"{most:,} fit with {new!r} in place of {old!r}; " for old, new in best[:MOST_NAMES]]
    old, new = best[0] if best else ("", "")
    rename = f"^{old.replace('.', '[.]')}={new}" if best else "REGEX=NEW"
    command = ["import-state-dict", str(source), "renamed.safetensors", "--rename", rename]
    line = remedy(old, new) if remedy else wings.command(shlex.join(command))
    raise errors.MismatchError(
        f"{source}: no tensor fits by name; it has {len(names):,}: "
        f"{joined(sorted(names), MOST_NAMES)}; the model has {len(own):,}: "
        f"{joined([*own], MOST_NAMES)}; {''.join(fits)}rename them: {line}"
    )


def best_prefixes(names: Collection[str], own: Collection[str]) -> tuple[list[Prefix], int]:
    """The pairs of prefixes that turn most names into names of a module, and how many they turn."""
    some = [*names][:: 1 + len(names) // (MAX_COMPARED // (len(own) + 1) + 20)]
    pairs = Counter(_starts(name, other) for name, other in itertools.product(some, own))
    known = frozenset(own)
    numbers = {
        (old, new): sum(name.startswith(old) and new + name[len(old) :] in known for name in names)
        for (old, new), _ in pairs.most_common(20)
    }
    most = max(numbers.values(), default=0)
    return [prefix for prefix, number in numbers.items() if number == most > 0], most


def _outermost(name: str) -> str:
    return name.partition(".")[0]


def _starts(name: str, other: str) -> Prefix:
    """The starts of two names, without the modules and tensor at their ends that they share."""
    sides = name.split("."), other.split(".")
    shared = len(os.path.commonprefix([side[::-1] for side in sides]))
    old, new = ("".join(f"{part}." for part in side[: len(side) - shared]) for side in sides)
    return old, new


def copy(places: Places, tensors: Tensors, names: Iterable[str]) -> None:
    """Copies the tensors of these names into a module's own, casting to their dtype and device."""
    with torch.no_grad():
        for name in names:
            places[name].in_file.copy_(tensors[name])


def shown(reasons: Mapping[str, str]) -> str:
    """The first reasons, by name."""
    return joined([f"{name!r} {reason}" for name, reason in reasons.items()], MOST_NAMES)


def described(differing: Differences, places: Places, tensors: Tensors) -> str:
    """Describes the differences, one a line."""
    lines = [f"  missing: {name!r} ({_shape(places[name].in_file)})" for name in differing.missing]
    nearest = differing.missing or tuple(places)
    for number, name in enumerate(differing.unexpected):
        hint = errors.nearest(name, nearest) if (number + 1) * len(nearest) <= MAX_COMPARED else ""
        lines.append(f"  unexpected: {name!r} ({_shape(tensors[name])}){hint}")
    return "\n".join(lines + [f"  {name!r} {reason}" for name, reason in differing.unfit.items()])


def _why_unfit(place: Place, tensor: Tensor) -> str:
    own = place.in_file
    if tensor.shape != own.shape:
        return f"is {_shape(tensor)} in the record, and {_shape(own)} in the module"
    kind, own_kind = _kind(tensor), _kind(own)
    if kind != own_kind:
        return (
            f"is {kind} ({tensor.dtype}) in the record, and {own_kind} ({own.dtype}) in the module"
        )
    if kind == "an integer" and not holds(own.dtype, tensor):
        return f"has integers in the record that {own.dtype} in the module cannot hold"
    if lost := too_large(tensor, own.dtype):
        return f"has {lost[0]!r} in the record, which would be infinite as {own.dtype}"
    return ""


def holds(dtype: torch.dtype, tensor: Tensor) -> bool:
    """Whether an integer dtype holds every value of a tensor of integers."""
    if tensor.numel() == 0:
        return True
    values = tensor.cpu().numpy()  # torch has no min of unsigned integers
    limits = torch.iinfo(dtype)
    return limits.min <= int(values.min()) and int(values.max()) <= limits.max


def too_large(tensor: Tensor, dtype: torch.dtype) -> list[float]:
    """The finite floats that would become infinite in another floating dtype, largest first."""
    if not tensor.is_floating_point() or torch.finfo(dtype).max >= torch.finfo(tensor.dtype).max:
        return []
    lost = tensor[_finite(tensor) & ~_finite(tensor.to(dtype))].double().tolist()
    return sorted(lost, key=abs, reverse=True)


def _finite(tensor: Tensor) -> Tensor:
    # torch has no isfinite of 8 bits
    return (tensor if tensor.element_size() > 1 else tensor.float()).isfinite()


def _why_not_tied(
    places: Places, tensors: Tensors, name: str, twin: str
) -> str:
    """Why the record's tensors cannot both become one tensor with two names in the module."""
    one, other = (
        Place(tensors[value], places[value].is_transposed).in_file.to(places[value].own.dtype)
        for value in (name, twin)
    )
    # as bytes: two NaNs may be equal
    if torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)):
        return ""
    return f"is one tensor with {twin!r} in the module, and another in the record"


def _memory(tensor: Tensor) -> object:
    """A key that two names of one tensor share."""
    own: Tensor = getattr(tensor, "to_local", tensor.detach)()  # of a sharded one
    if not own.numel():
        return id(tensor)
    start = own.untyped_storage().data_ptr()
    return start, own.storage_offset(), own.shape, own.stride()


def _kind(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return "floating"
    if tensor.is_complex():
        return "complex"
    return "boolean" if tensor.dtype == torch.bool else "an integer"


def _shape(tensor: Tensor) -> str:
    return shortened("x".join(map(str, tensor.shape))) or "scalar"

"""Compares a record's tensors with a module's: all differences, before any is copied."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from andiron import errors
from andiron.serialization import number_formats
from andiron.serialization.layouts import Place, Places
from andiron.serialization.record import Tensors

MAX_COMPARED = 20_000  # pairs of names; the nearest of thousands for each of thousands take minutes


@dataclass(frozen=True)
class Differences:
    """The differences of a record from a module, by tensor name; false if there are none."""

    missing: tuple[str, ...] = ()  # only in the module
    unexpected: tuple[str, ...] = ()  # only in the record
    unfit: dict[str, str] = field(default_factory=dict)  # in both; why the record's does not fit
    fitting: tuple[str, ...] = field(default=(), compare=False)
    other_kind: tuple[str, ...] = ()  # names in `unfit` with integers for floats, or the like

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


def copy(places: Places, tensors: Tensors, names: Iterable[str]) -> None:
    """Copies the tensors of these names into a module's own, casting to their dtype and device."""
    with torch.no_grad():
        for name in names:
            places[name].in_file.copy_(tensors[name])


def described(found: Differences, places: Places, tensors: Tensors) -> str:
    """Describes the differences, one a line."""
    lines = [f"  missing: {name!r} ({_shape(places[name].in_file)})" for name in found.missing]
    nearest = found.missing or tuple(places)
    for number, name in enumerate(found.unexpected):
        hint = errors.nearest(name, nearest) if (number + 1) * len(nearest) <= MAX_COMPARED else ""
        lines.append(f"  unexpected: {name!r} ({_shape(tensors[name])}){hint}")
    return "\n".join(lines + [f"  {name!r} {reason}" for name, reason in found.unfit.items()])


def _why_unfit(place: Place, tensor: Tensor) -> str:
    own = place.in_file
    if tensor.shape != own.shape:
        return f"is {_shape(tensor)} in the record, and {_shape(own)} in the module"
    kind, own_kind = _kind(tensor), _kind(own)
    if kind != own_kind:
        return (
            f"is {kind} ({tensor.dtype}) in the record, and {own_kind} ({own.dtype}) in the module"
        )
    if kind == "an integer" and not number_formats.holds(own.dtype, tensor):
        return f"has integers in the record that {own.dtype} in the module cannot hold"
    if lost := number_formats.too_large(tensor, own.dtype):
        return f"has {lost[0]!r} in the record, which would be infinite as {own.dtype}"
    return ""


def _why_not_tied(
    places: Places, tensors: Tensors, name: str, twin: str
) -> str:
    """Why the record's tensors cannot both become one tensor with two names in the module."""
    one, other = (
        Place(tensors[each], places[each].is_transposed).in_file.to(places[each].own.dtype)
        for each in (name, twin)
    )
    # as bytes: two NaNs may be equal
    if torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)):
        return ""
    return f"is one tensor with {twin!r} in the module, and another in the record"


def _memory(tensor: Tensor) -> object:
    """A key that two names of one tensor share."""
    if not tensor.numel():
        return id(tensor)
    start = tensor.untyped_storage().data_ptr()
    return start, tensor.storage_offset(), tensor.shape, tensor.stride()


def _kind(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return "floating"
    if tensor.is_complex():
        return "complex"
    return "boolean" if tensor.dtype == torch.bool else "an integer"


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"

"""Named tensors into the tensors of a module: what does not fit is told, all at once, before one is touched."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.serialization import layouts, number_formats, safetensors_codec
from andiron.serialization.layouts import Place

MAX_COMPARED = 20_000  # pairs of names: finding the nearest of thousands for each of thousands would take minutes


@dataclass(frozen=True)
class Differences:
    """Names that a module has and a record has not, the other way round, and why tensors of one name do not fit."""

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    unfit: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.unfit)


def differences(places: Mapping[str, Place], tensors: Mapping[str, Tensor]) -> Differences:
    """Everything in which named tensors differ from what a module has room for.

    A tensor that the module has under several names (tied weights) is missing only if none of them is there.
    """
    held = {_memory(place.own) for name, place in places.items() if name in tensors}
    missing = tuple(
        name
        for name, place in places.items()
        if name not in tensors and _memory(place.own) not in held
    )
    unexpected = tuple(name for name in tensors if name not in places)
    unfit: dict[str, str] = {}
    first: dict[object, str] = {}
    for name, place in places.items():
        if name in tensors:
            reason = _why_not(place, tensors[name])
            if not reason:
                twin = first.setdefault(_memory(place.own), name)
                reason = _why_not_one(places, tensors, name, twin) if twin != name else ""
            unfit |= {name: reason} if reason else {}
    return Differences(missing, unexpected, unfit)


def copy(places: Mapping[str, Place], tensors: Mapping[str, Tensor], *, leave: Differences) -> None:
    """Copies named tensors into a module's own, casting to their dtype and device, but for those that differ."""
    with torch.no_grad():
        for name, place in places.items():
            if name in tensors and name not in leave.unfit:
                place.shown.copy_(tensors[name])


def told(found: Differences, places: Mapping[str, Place], tensors: Mapping[str, Tensor]) -> str:
    """The differences, one a line."""
    lines = [f"  missing: {name!r} ({_shape(places[name].shown)})" for name in found.missing]
    nearest = found.missing or tuple(places)
    for number, name in enumerate(found.unexpected):
        hint = errors.nearest(name, nearest) if (number + 1) * len(nearest) <= MAX_COMPARED else ""
        lines.append(f"  unexpected: {name!r} ({_shape(tensors[name])}){hint}")
    return "\n".join(lines + [f"  {name!r} {reason}" for name, reason in found.unfit.items()])


def load_what_fits(
    module: nn.Module, tensors: Mapping[str, Tensor], *, layout: str = "torch"
) -> tuple[list[str], list[str]]:
    """Copies those of `tensors` whose name and shape `module` has; the names of those it took, and in words of those it has not.

    Raises: ValueError if none fits.
    """
    own = {name: place.shown for name, place in layouts.places(module, layout).items()}
    taken = [
        name
        for name, tensor in own.items()
        if name in tensors and tensors[name].shape == tensor.shape
    ]
    if not taken:
        raise ValueError(
            f"no tensor fits by name and shape; there are {', '.join(tensors)}; the model has {', '.join(own)}"
        )
    with torch.no_grad():
        for name in taken:
            own[name].copy_(tensors[name])
    left = {
        name: "not there" if name not in tensors else _shape(tensors[name])
        for name in own
        if name not in taken
    }
    return taken, [f"{name} {_shape(own[name])} ({there})" for name, there in left.items()]


def _why_not(place: Place, tensor: Tensor) -> str:
    own = place.shown
    if tensor.shape != own.shape:
        return f"is {_shape(tensor)} in the record, and {_shape(own)} in the module"
    if _kind(tensor) != _kind(own):
        return f"is {_kind(tensor)} ({tensor.dtype}) in the record, and {_kind(own)} ({own.dtype}) in the module"
    if _kind(own) == "an integer" and not number_formats.holds(own.dtype, tensor):
        return f"has integers in the record that {own.dtype} in the module has not"
    lost = number_formats.too_large(tensor, own.dtype) if _kind(own) == "floating" else []
    return (
        f"has {lost[0]!r} in the record, which would be infinite as {own.dtype} in the module"
        if lost
        else ""
    )


def _why_not_one(
    places: Mapping[str, Place], tensors: Mapping[str, Tensor], name: str, twin: str
) -> str:
    """Why two names of the module's one tensor cannot both have what the record has for them."""
    one, other = (
        Place(tensors[n], places[n].is_transposed).shown.to(places[n].own.dtype)
        for n in (name, twin)
    )
    if safetensors_codec.as_bytes(one.contiguous()) == safetensors_codec.as_bytes(
        other.contiguous()
    ):
        return ""
    return f"is one tensor with {twin!r} in the module, and another in the record"


def _memory(tensor: Tensor) -> object:
    """What two names of one tensor have in common."""
    where = (
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tensor.shape,
        tensor.stride(),
    )
    return where if tensor.numel() and tensor.device.type != "meta" else id(tensor)


def _kind(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return "floating"
    return (
        "complex"
        if tensor.is_complex()
        else "boolean"
        if tensor.dtype == torch.bool
        else "an integer"
    )


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"

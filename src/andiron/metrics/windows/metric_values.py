"""Values that a metric's `value` gives, by name: numbers as Python's, pictures, texts."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.plain import readable
from andiron.protocols import Decisions

TAKEN = "a number, a Markdown text, a picture (uint8 [channels, height, width]), Decisions, a dict"


def named(name: str, value: object) -> dict[str, Any]:
    """The value of the metric `name`; of a dict each entry, as name/entry.

    Raises: MismatchError for one that nothing could show.
    """
    if isinstance(value, Mapping):
        return {f"{name}/{part}": _plain(name, inner) for part, inner in value.items()}
    return {name: _plain(name, value)}


def _plain(name: str, value: Any) -> Any:
    """The value; a number of NumPy, or a tensor without dimensions, as Python's."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    is_picture = isinstance(value, Tensor) and value.dtype == torch.uint8 and value.dim() == 3
    if is_picture or value is None or isinstance(value, int | float | str | Decisions):
        return value
    shown = readable.shortened(" ".join(repr(value).split()))
    raise errors.MismatchError(f"metrics.{name}: its value is {shown}; should be {TAKEN} or None")

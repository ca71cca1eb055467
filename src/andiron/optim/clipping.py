"""Clipping as a function from gradients to gradients, and how a config says which."""

from collections.abc import Callable, Mapping
from functools import partial

from andiron import gradients
from andiron.gradients import Gradients

Clip = Callable[[Gradients], Gradients]
KINDS: dict[str, Callable[[float], Clip]] = {
    "global_norm": lambda limit: partial(gradients.clip_by_global_norm, max_norm=limit),
    "norm": lambda limit: partial(gradients.clip_by_norm, max_norm=limit),
    "value": lambda limit: partial(gradients.clip_by_value, limit=limit),
}


def from_value(clip: float | Mapping[str, float]) -> Clip:
    """A number clips by the joint norm; `{global_norm: x}`, `{norm: x}` (each tensor) and `{value: x}` say which.

    Raises: ValueError for another kind, or a limit that is not positive.
    """
    kinds = clip if isinstance(clip, Mapping) else {"global_norm": clip}
    if len(kinds) != 1 or not kinds.keys() <= KINDS.keys():
        raise ValueError(
            f"clip={clip}: should be a number, or one of {', '.join(KINDS)} with its limit"
        )
    ((kind, limit),) = kinds.items()
    if not limit > 0:
        raise ValueError(
            f"clip={clip}: the limit should be greater than 0; leave clip out to have none"
        )
    return KINDS[kind](limit)

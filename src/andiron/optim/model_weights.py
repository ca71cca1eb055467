"""The tensors that `model.state_dict()` saves, and other tensors in their place for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from andiron import errors


def entries(model: nn.Module) -> dict[str, Tensor]:
    """The model's own tensors by name, looked up anew: a forward pass may replace a buffer."""
    return dict(model.state_dict(keep_vars=True))


def first_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The first name of each name's tensor: a model may share one under several."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}


def copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    """Copies the values of `source` into the tensors of these names in `target`."""
    with torch.no_grad():
        for name, tensor in source.items():
            target[name].copy_(tensor)


@contextmanager
def swapped_in(tensors: Mapping[str, Tensor], model: nn.Module) -> Iterator[None]:
    """Inside it `model` has the values of `tensors`; afterwards its own, bit for bit."""
    own = entries(model)
    before = {name: own[name].detach().clone() for name in tensors}
    copy(tensors, own)
    try:
        yield
    finally:
        copy(before, entries(model))


def check_names(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], problem: str) -> None:
    """Raises: ValueError that begins with `problem` and lists names only one of the two has."""
    if found.keys() == expected.keys():
        return
    missing = [name for name in expected if name not in found]
    unknown = [f"{name!r}{errors.nearest(name, missing)}" for name in found if name not in expected]
    parts = ["it lacks " + ", ".join(map(repr, missing))] if missing else []
    parts += ["it has " + ", ".join(unknown)] if unknown else []
    raise ValueError(f"{problem}: {'; '.join(parts)}")

"""The tensors that `model.state_dict()` saves, and other tensors in their place for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.gradients import Tensors


def entries(model: nn.Module) -> dict[str, Tensor]:
    """The model's own tensors by name, looked up anew: a forward pass may replace a buffer."""
    return dict(model.state_dict(keep_vars=True))


def copy(source: Tensors, target: Tensors) -> None:
    """Copies the values of `source` into the tensors of these names in `target`."""
    with torch.no_grad():
        for name, tensor in source.items():
            target[name].copy_(tensor)


def differences(found: Tensors, expected: Tensors) -> Iterator[str]:
    """What keeps saved tensors from being values of the `expected` ones, a line for each name."""
    for name in sorted(found.keys() ^ expected.keys()):
        yield f"{name!r} is {'missing' if name in expected else 'not known'}"
    for name in sorted(found.keys() & expected.keys()):
        was, own = (
            f"{str(each.dtype).removeprefix('torch.')} {list(each.shape)}"
            for each in (found[name], expected[name])
        )
        if was != own:
            yield f"{name!r} is {was}, not {own}"


@contextmanager
def swapped_in(tensors: Tensors, model: nn.Module) -> Iterator[None]:
    """Inside it `model` has the values of `tensors`; afterwards its own, bit for bit."""
    own = entries(model)
    before = {name: own[name].detach().clone() for name in tensors}
    copy(tensors, own)
    try:
        yield
    finally:
        copy(before, entries(model))


def check_names(found: Tensors, expected: Tensors, problem: str) -> None:
    """Raises: ValueError that begins with `problem` and lists names only one of the two has."""
    if found.keys() == expected.keys():
        return
    missing = [name for name in expected if name not in found]
    unknown = [f"{name!r}{errors.nearest(name, missing)}" for name in found if name not in expected]
    parts = ["it lacks " + ", ".join(map(repr, missing))] if missing else []
    parts += ["it has " + ", ".join(unknown)] if unknown else []
    raise ValueError(f"{problem}: {'; '.join(parts)}")

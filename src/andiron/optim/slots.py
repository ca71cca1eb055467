"""An optimizer's state, whatever it is made of, as tensors by name; and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

NUMBER, LENGTH = ":number", ":length"  # after a slot's name: a plain number; how many items a list has


def flattened(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors, plain numbers, and lists of them with gaps, each under a name that tells which it is; None is left out.

    Raises: TypeError for anything else.
    """
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, bool | int | float):  # in 64 bits, which a Python float has
            found[name + NUMBER] = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        elif isinstance(value, list):
            found[name + LENGTH] = torch.tensor(len(value))
            found |= flattened({f"{name}.{place}": item for place, item in enumerate(value)})
        elif value is not None:
            raise TypeError(f"optimizer state {name!r} is a {type(value).__name__}; only tensors, numbers and lists can be saved")
    return found


def restored(slots: Mapping[str, Tensor]) -> dict[str, Any]:
    """What `flattened` was made of, less the entries that were None."""
    found: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for name, tensor in slots.items():
        if name.endswith(LENGTH):
            lengths[name.removesuffix(LENGTH)] = int(tensor)
        elif name.endswith(NUMBER):
            found[name.removesuffix(NUMBER)] = tensor.item()
        else:
            found[name] = tensor
    for name, length in lengths.items():
        found[name] = [found.pop(f"{name}.{place}", None) for place in range(length)]
    return found

"""An optimizer's state, whatever it is made of, as tensors by name; and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

NUMBER, LENGTH = (
    ":number",
    ":length",
)  # after a slot's name: a plain number; how many items a list has
COUNTERS = ("step", "mu_product")  # torch keeps them on the CPU, unless fused or capturable


def flattened(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors, plain numbers, and lists of them with gaps, each under a name that tells which it is; None is left out.

    Raises: TypeError for anything else.
    """
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, bool | int | float):  # in 64 bits, which a Python float has
            found[name + NUMBER] = torch.tensor(
                value, dtype=torch.float64 if isinstance(value, float) else None
            )
        elif isinstance(value, list):
            found[name + LENGTH] = torch.tensor(len(value))
            found |= flattened({f"{name}.{place}": item for place, item in enumerate(value)})
        elif value is not None:
            raise TypeError(
                f"optimizer state {name!r} is a {type(value).__name__}; only tensors, numbers and lists can be saved"
            )
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
    for name, length in sorted(
        lengths.items(), key=lambda entry: -len(entry[0])
    ):  # a list in a list has the longer name
        found[name] = [found.pop(f"{name}.{place}", None) for place in range(length)]
    return found


def placed(slot: str, saved: Tensor, parameter: nn.Parameter, counters_on_device: bool) -> Tensor:
    """A copy of a saved tensor where the optimizer of `parameter` has it: on its device, and in its memory layout.

    A file has rows only. Fused steps go through parameter and state by address, so that both have to lie alike.
    """
    if slot.endswith((NUMBER, LENGTH)) or (slot in COUNTERS and not counters_on_device):
        return saved.clone()
    here = saved.to(parameter.device, copy=True)
    if here.shape != parameter.shape or here.stride() == parameter.stride():
        return here
    return torch.empty_like(parameter, dtype=here.dtype, requires_grad=False).copy_(here)

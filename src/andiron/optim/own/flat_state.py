"""An optimizer's state as tensors by name, and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

# suffixes of a slot's name: a plain number; the number of items in a list; bytes in UTF-8
NUMBER, LENGTH, TEXT = ":number", ":length", ":text"
TRANSPOSED = ":transposed"  # of a matrix in columns: files have rows, and products in other bits
COUNTERS = ("step", "mu_product")  # torch keeps them on the CPU, unless fused or capturable


def flattened(state: Mapping[str, Any], parameter: Tensor | None = None) -> dict[str, Tensor]:
    """Tensors, numbers, texts, and lists of them with gaps, each under a name that tells which.

    None is left out. `placed` restores the layout of tensors that have their parameter's.
    Raises: TypeError for anything else.
    """
    flat: dict[str, Tensor] = {}
    for name, value in state.items():
        if isinstance(value, Tensor):
            in_columns = _in_columns(value, parameter)
            flat |= {name + TRANSPOSED: value.t()} if in_columns else {name: value}
        elif isinstance(value, bool | int | float):  # a Python float has 64 bits
            dtype = torch.float64 if isinstance(value, float) else None
            flat[name + NUMBER] = torch.tensor(value, dtype=dtype)
        elif isinstance(value, str):
            flat[name + TEXT] = torch.tensor([*value.encode()], dtype=torch.uint8)
        elif isinstance(value, list | tuple):
            flat[name + LENGTH] = torch.tensor(len(value))
            items = {f"{name}.{place}": item for place, item in enumerate(value)}
            flat |= flattened(items, parameter)
        elif value is not None:
            raise TypeError(
                f"optimizer state {name!r} is a {type(value).__name__}; only tensors, numbers, "
                "texts and lists can be saved"
            )
    return flat


def is_numeric(value: Any) -> bool:
    """Whether it is a number, or numbers, such as Adam's betas."""
    numbers = value if isinstance(value, list | tuple) else (value,)
    return all(isinstance(number, int | float) for number in numbers)


def _in_columns(value: Tensor, parameter: Tensor | None) -> bool:
    """Whether it is a matrix stored by columns, and `parameter` does not show that."""
    if value.dim() != 2 or value.is_contiguous() or not value.t().is_contiguous():
        return False
    return parameter is None or (value.shape, value.stride()) != (
        parameter.shape, parameter.stride(),
    )  # fmt: skip


def restored(flat: Mapping[str, Tensor]) -> dict[str, Any]:
    """The state before `flattened`, without entries that were None, with lists for tuples."""
    state: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for name, tensor in flat.items():
        if name.endswith(LENGTH):
            lengths[name.removesuffix(LENGTH)] = int(tensor)
        elif name.endswith(NUMBER):
            state[name.removesuffix(NUMBER)] = tensor.item()
        elif name.endswith(TRANSPOSED):
            state[name.removesuffix(TRANSPOSED)] = tensor.t()
        elif name.endswith(TEXT):
            state[name.removesuffix(TEXT)] = bytes(tensor.tolist()).decode()
        else:
            state[name] = tensor
    for name in sorted(lengths, key=len, reverse=True):  # an inner list has the longer name
        state[name] = [state.pop(f"{name}.{place}", None) for place in range(lengths[name])]
    return state


def placed(slot: str, saved: Tensor, parameter: nn.Parameter, counters_on_device: bool) -> Tensor:
    """A copy of a saved tensor on the device and in the memory layout that the optimizer needs.

    Files are row-major. Fused kernels address parameter and state alike, so their strides must
    agree.
    """
    if slot.endswith((NUMBER, LENGTH, TEXT)) or (slot in COUNTERS and not counters_on_device):
        return saved.clone()
    here = saved.to(parameter.device, copy=True)
    if here.shape != parameter.shape or here.stride() == parameter.stride():
        return here
    return torch.empty_like(parameter, dtype=here.dtype, requires_grad=False).copy_(here)

"""An optimizer's state as tensors by name, and back.

That of a class of torch, which kernels may trust, is one by `<parameter>/<slot>`; a group's numeric
options are stored with its first parameter if they have changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from andiron.gradients import Tensors
from andiron.plain.plain_values import Named, Plain

# suffixes of a slot's name: a plain number; the number of items in a list; bytes in UTF-8
NUMBER, LENGTH, TEXT = ":number", ":length", ":text"
TRANSPOSED = ":transposed"  # of a matrix in columns: files have rows, and products in other bits
COUNTERS = ("step", "mu_product")  # torch keeps them on the CPU, unless fused or capturable
Groups = Sequence[Mapping[str, nn.Parameter]]  # the parameters of each group, by name
GROUP = "group."  # prefix of slots that a group shares
UNSAVED = ("lr", "params", "train_mode")  # of a group: each step and evaluation sets them


class SlotState:
    """The slots of `inner`, whose groups have the parameters `groups`."""

    def __init__(self, inner: Any, groups: Groups):
        self._inner, self._groups = inner, groups
        self.initial = [{**group} for group in inner.param_groups]

    def flat(self) -> dict[str, Tensor]:
        """The state as tensors."""
        flat = dict[str, Tensor]()
        for number, group in enumerate(self._groups):
            for name, parameter in group.items():
                flat |= flattened(self._inner.state.get(parameter, {}), parameter, f"{name}/")
            flat |= flattened(self._changed(number), prefix=f"{[*group][0]}/{GROUP}")
        return flat

    def load(self, state: Tensors) -> None:
        """Continues from a saved state."""
        slots: dict[str, dict[str, Tensor]] = {}
        shared: dict[str, dict[str, Tensor]] = {}
        for key, value in state.items():
            name, _, slot = key.rpartition("/")
            named_slots = shared if slot.startswith(GROUP) else slots
            named_slots.setdefault(name, {})[slot.removeprefix(GROUP)] = value
        self._inner.state.clear()
        on_device = any(self.initial[0].get(option) for option in ("fused", "capturable"))
        for number, named in enumerate(self._groups):
            group = self._inner.param_groups[number]
            for name in self._changed(number):
                del group[name]
            initial = self.initial[number].items()
            group.update({name: value for name, value in initial if name != "lr"})
            for name, parameter in named.items():
                group.update(restored(shared.get(name, {})))
                if own := slots.get(name):
                    self._inner.state[parameter] = restored(
                        {slot: placed(slot, own[slot], parameter, on_device) for slot in own}
                    )

    def option_slots(self, number: int) -> set[str]:
        """The slots of a group's numeric options, which may change between steps."""
        return {*flattened(self._numbers(number), prefix=GROUP)}

    def _changed(self, number: int) -> Plain:
        """A group's numeric options that have changed, without the learning rate."""
        before = self.initial[number]
        return {n: v for n, v in self._numbers(number).items() if v != before.get(n)}

    def _numbers(self, number: int) -> Plain:
        """A group's numeric options, without the learning rate; betas are two numbers."""
        group = self._inner.param_groups[number]
        return {
            name: value
            for name, value in group.items()
            if name not in UNSAVED and is_numeric(value)
        }


def flattened(state: Named, parameter: Tensor | None = None, prefix: str = "") -> dict[str, Tensor]:
    """Tensors, numbers, texts, and lists of them with gaps, each under a name that tells which.

    None is left out. `placed` restores the layout of tensors that have their parameter's.
    Raises: TypeError for anything else.
    """
    flat: dict[str, Tensor] = {}
    for slot, value in state.items():
        name = prefix + slot
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


def is_numeric(value: object) -> bool:
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


def restored(flat: Mapping[str, Tensor]) -> Plain:
    """The state before `flattened`, without entries that were None, with lists for tuples."""
    state: Plain = {}
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

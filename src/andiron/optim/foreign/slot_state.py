"""The state of a class of torch as tensors by `<parameter>/<slot>`, which kernels may trust.

A group's numeric options are stored with its first parameter if they have changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from andiron.gradients import Tensors
from andiron.optim.own import flat_state

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
                slots = flat_state.flattened(self._inner.state.get(parameter, {}), parameter)
                flat |= {f"{name}/{slot}": value for slot, value in slots.items()}
            shared = flat_state.flattened(self._changed(number))
            flat |= {f"{[*group][0]}/{GROUP}{slot}": value for slot, value in shared.items()}
        return flat

    def load(self, state: Tensors) -> None:
        """Continues from a saved state."""
        slots: dict[str, dict[str, Tensor]] = {}
        for key, value in state.items():
            name, _, slot = key.rpartition("/")
            slots.setdefault(name, {})[slot] = value
        self._inner.state.clear()
        for number, named in enumerate(self._groups):
            group, shared = self._inner.param_groups[number], dict[str, Tensor]()
            for name, parameter in named.items():
                own = slots.get(name, {})
                of_group = [slot for slot in own if slot.startswith(GROUP)]
                shared |= {slot.removeprefix(GROUP): own.pop(slot) for slot in of_group}
                if own:
                    self._inner.state[parameter] = self._placed(own, parameter)
            for name in self._changed(number):
                del group[name]
            kept = {name: each for name, each in self.initial[number].items() if name != "lr"}
            group.update(kept | flat_state.restored(shared))

    def option_slots(self, number: int) -> set[str]:
        """The slots of a group's numeric options, which may change between steps."""
        return {f"{GROUP}{slot}" for slot in flat_state.flattened(self._numbers(number))}

    def _placed(self, slots: Tensors, parameter: nn.Parameter) -> dict[str, Any]:
        """The state of a parameter, on its device and in its memory layout."""
        group = self.initial[0]
        on_device = bool(group.get("fused") or group.get("capturable"))
        return flat_state.restored({
            slot: flat_state.placed(slot, tensor, parameter, on_device)
            for slot, tensor in slots.items()
        })  # fmt: skip

    def _changed(self, number: int) -> dict[str, Any]:
        """A group's numeric options that have changed, without the learning rate."""
        before = self.initial[number]
        return {n: v for n, v in self._numbers(number).items() if v != before.get(n)}

    def _numbers(self, number: int) -> dict[str, Any]:
        """A group's numeric options, without the learning rate; betas are two numbers."""
        group = self._inner.param_groups[number]
        return {
            name: value
            for name, value in group.items()
            if name not in UNSAVED and flat_state.is_numeric(value)
        }

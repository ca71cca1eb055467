"""The names and shapes of a module's tensors in a file: torch's layout, or the lab's of Burn."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from andiron import errors
from andiron.plain import wings

LAYOUTS = ("torch", "burn")


@dataclass(frozen=True)
class Place:
    """A tensor of a module, and whether the file has it transposed."""

    own: Tensor
    is_transposed: bool = False

    @property
    def in_file(self) -> Tensor:
        """The tensor laid out as in the file: a view, so copying into it changes the module."""
        return self.own.t() if self.is_transposed else self.own


Places = Mapping[str, Place]


def places(module: nn.Module, layout: str) -> Places:
    """The parameters and persistent buffers of a module, by their names in a file of this layout.

    Raises: ValueError for an unknown layout; MismatchError naming the tensors or modules that a
    file of this layout cannot hold.
    """
    if layout not in LAYOUTS:
        raise ValueError(
            f"layout is {layout!r}; choose from {', '.join(LAYOUTS)}"
            f"{errors.nearest(layout, LAYOUTS)}"
        )
    own = module.state_dict(keep_vars=True)
    _check_tensors(own)
    if layout == "torch":
        return {name: Place(tensor.detach()) for name, tensor in own.items()}
    records = wings.required("records", "the layout of Burn", errors.MismatchError)
    in_burn: Places = records.places(module, own)
    return in_burn


def _check_tensors(own: dict[str, Tensor]) -> None:
    extra = [name for name, value in own.items() if not isinstance(value, Tensor)]
    if extra:
        raise errors.MismatchError(
            f"{', '.join(extra)}: extra state that is not a tensor; record it separately, as values"
        )
    hollow = [name for name, tensor in own.items() if is_lazy(tensor) or tensor.is_meta]
    if hollow:
        raise errors.MismatchError(
            f"{', '.join(hollow)}: on the meta device, without data; "
            "call module.to_empty(device=...) first, or run a lazy module once"
        )

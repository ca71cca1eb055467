"""Converts the states of a torchmetrics metric to parts of a batch, and merged parts to states.

Each batch counts as a process of torchmetrics: batches are merged as it merges processes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from andiron.outputs import sum_dtype

MOST_DIMENSIONS = 7  # of a tensor in a list; its shape is stored in one row of numbers


@dataclass(frozen=True)
class State:
    """One state of `owner`, merged by `reduction`; a list state holds the appended tensors."""

    owner: Any
    name: str
    reduction: Callable[[Any], Any] | None
    default: Any

    @property
    def is_list(self) -> bool:
        return isinstance(self.default, list)

    def set(self, value: Any) -> None:
        """Sets the owner's state, as if it had been updated."""
        setattr(self.owner, self.name, value)
        self.owner._update_count = 1  # else an inner metric warns that it was not updated


States = Sequence[State]


def states_of(owners: Sequence[Any]) -> States:
    """The states of a metric and of the metrics inside it."""
    return [
        State(owner, name, reduction, owner._defaults[name])
        for owner in owners
        for name, reduction in owner._reductions.items()
    ]


def widen(states: States) -> None:
    """Makes a float state float64, since an update may add to it in place."""
    for state in states:
        value = getattr(state.owner, state.name)
        if not state.is_list and value.is_floating_point():
            setattr(state.owner, state.name, value.to(sum_dtype(value.device)))


def are_sums(states: States) -> bool:
    """Whether each state is a sum, so that parts can be added up without gathering."""
    from torchmetrics.utilities import dim_zero_sum  # here: it takes seconds, and is optional

    return all(not state.is_list and state.reduction is dim_zero_sum for state in states)


def lacks_reduction(states: States) -> bool:
    """Whether the metric itself merges a tensor in `compute`: running means, as in Pearson.

    Some merge no more than two, so such a metric is computed from all predictions at once.
    """
    return any(not state.is_list and state.reduction is None for state in states)


def parts_of(states: States) -> Iterator[Tensor]:
    """The states after one batch, to be concatenated: a row for a tensor; values and shapes."""
    for state in states:
        value = getattr(state.owner, state.name)
        if not state.is_list:
            yield value[None]
            continue
        for entry in value:
            if not isinstance(entry, Tensor):
                raise TypeError(
                    f"its state {state.name} has a {type(entry).__name__}; a checkpoint saves "
                    "tensors"
                )
        # an empty one, joined with any other, takes its dtype
        empty = torch.empty(0, dtype=torch.bool)
        yield torch.cat([entry.flatten() for entry in value]) if value else empty
        yield _shapes(value)


def set_sums(states: States, parts: Sequence[Tensor]) -> None:
    """Sums become states: counts as integers again, other sums stay float64."""
    for state, part in zip(states, parts, strict=True):
        is_float = state.default.is_floating_point() or state.default.is_complex()
        state.set(part if is_float else part.to(state.default.dtype))


def set_gathered(states: States, parts: Sequence[Tensor]) -> None:
    """Concatenated parts become states: rows merged by the reduction, lists restored."""
    remaining = iter(parts)
    for state in states:
        part = next(remaining)
        if state.is_list:
            state.set(_list(part, next(remaining)))
        else:  # no metric with `lacks_reduction` comes here
            state.set(part[0] if len(part) == 1 else state.reduction(part))  # type: ignore[misc]


def _shapes(values: Sequence[Tensor]) -> Int[Tensor, "values 8"]:
    """The number of dimensions of each tensor, its sizes, and zeros."""
    rows = [[value.ndim, *value.shape, *[0] * (MOST_DIMENSIONS - value.ndim)] for value in values]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 1 + MOST_DIMENSIONS)


def _list(flat: Tensor, shapes: Int[Tensor, "values 8"]) -> list[Tensor]:
    sizes = [torch.Size(sizes[:dimensions]) for dimensions, *sizes in shapes.tolist()]
    pieces = torch.split(flat, [size.numel() for size in sizes])
    return [piece.reshape(size) for piece, size in zip(pieces, sizes, strict=True)]

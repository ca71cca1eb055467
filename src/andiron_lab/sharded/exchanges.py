"""The exchanges of a block: its weights gathered, its gradients added up in a fixed order.

torch's `fully_shard` calls them through `set_custom_all_gather` and `set_custom_reduce_scatter`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from andiron import errors
from andiron.distributed import World
from andiron.outputs import Weight
from andiron.plain import private_torch


@dataclass
class StepPlace:
    """The step of an update whose backward runs, for the blocks that it passes."""

    weight: Weight = 1
    complete_slices: int = 0  # with this step; 0 within a slice
    is_last: bool = True


class _Memory:
    """Allocates what torch asks for."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Memory for an exchange."""
        return torch.empty(*size, dtype=dtype, device=device)


class BlockGather(_Memory):
    """Gathers the weights of a block, and names the process that is gone if that fails."""

    def __init__(self, world: World):
        self._world = world

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False
    ) -> "_Explained | None":
        """Fills `output_tensor` with the inputs of all processes."""
        gather = _named("all_gather_single", "all_gather_into_tensor")
        with self._world.explained():
            work = gather(output_tensor, input_tensor, group=group, async_op=async_op)
        return None if work is None else _Explained(work, self._world)


class _Explained:
    """An exchange under way."""

    def __init__(self, work: Any, world: World):
        self._work, self._world = work, world

    def wait(self) -> None:
        """Waits for its end."""
        with self._world.explained():
            self._work.wait()


class BlockSum(_Memory):
    """The sum of a block's weighted gradients over all steps and processes; each gets its part.

    With `slices`, a slice is the sum over its micro-batches, and slices are added in the binary
    tree of `optim.divided.sliced_mean`: within a process before the exchange, then between
    processes. A process with several steps an update holds sums of whole gradients until its last.
    Without, each step is added up over the processes by torch's reduce-scatter. `copies` is the
    group of the processes that hold the same part, each of another copy of the model.
    """

    def __init__(self, world: World, place: StepPlace, name: str, copies: Any = None):
        self._world, self._place, self._name, self._copies = world, place, name, copies
        self._of_slice: Tensor | None = None
        self._subtrees: list[Tensor] = []
        self._elements: int | None = None  # of the block's gradients, in this update
        self.sum: Tensor | None = None  # of the last step; its versions show a change
        self.version = 0

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: Any,
        op: object,
        async_op: bool = False,
    ) -> None:
        """Fills `output_tensor` with the part of this process; zeros before the last step.

        `op` is torch's mean over processes, which does not know the weights.
        Raises: MismatchError if other parameters than before have a gradient.
        """
        if self._elements not in (None, input_tensor.numel()):
            raise errors.MismatchError(
                f"strategy=fsdp: other parameters of {self._name} have a gradient than in an "
                "earlier part of the batch; freeze them, or give strategy=ddp"
            )
        self._elements = input_tensor.numel()
        weighted = _weighted(input_tensor, self._place.weight)
        if self._world.slices is None:
            with self._world.explained():
                reduce_scatter = _named("reduce_scatter_single", "reduce_scatter_tensor")
                reduce_scatter(output_tensor, weighted, group=group)
                if self._copies is not None:
                    torch.distributed.all_reduce(output_tensor, group=self._copies)
        elif (total := self._added(weighted)) is None:
            output_tensor.zero_()
        else:
            with self._world.explained():
                own = _tree_sum(total, group)
                output_tensor.copy_(own if self._copies is None else _everywhere(own, self._copies))
        self.sum, self.version = output_tensor, private_torch.version(output_tensor)

    def _added(self, gradients: Tensor) -> Tensor | None:
        """The sum of this process's slices, once the last step is added; None before."""
        self._of_slice = gradients if self._of_slice is None else self._of_slice.add_(gradients)
        if complete := self._place.complete_slices:
            total, self._of_slice = self._of_slice, None
            while complete % 2 == 0:  # both halves of a subtree are known
                total = self._subtrees.pop().add_(total)
                complete //= 2
            self._subtrees.append(total)
        return self._subtrees.pop() if self._place.is_last else None

    def forget(self) -> None:
        """Drops the sums of an update that was not finished."""
        self._of_slice, self._subtrees, self.sum = None, [], None
        self._elements = None  # a group may thaw between two updates


def _tree_sum(total: Tensor, group: Any) -> Tensor:
    """The sum of this process's part, neighbours first: a + b has the bits of b + a."""
    received = torch.empty_like(total)
    torch.distributed.all_to_all_single(received, total, group=group)
    sums = [*received.chunk(torch.distributed.get_world_size(group))]
    while len(sums) > 1:
        sums = [a.add_(b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


def _everywhere(values: Tensor, group: Any) -> Tensor:
    """The sums of all values over the processes of a group, in each of them."""
    size = torch.distributed.get_world_size(group)
    padded = functional.pad(values, (0, -values.numel() % size))
    sums = torch.empty_like(padded)
    gather = _named("all_gather_single", "all_gather_into_tensor")
    gather(sums, _tree_sum(padded, group), group=group)
    return sums[: values.numel()]


def _named(name: str, before: str) -> Any:
    """A function of torch.distributed, by its name since torch 2.14 or its name before."""
    return getattr(torch.distributed, name, None) or getattr(torch.distributed, before)


def _weighted(gradients: Tensor, weight: Weight) -> Tensor:
    """Gradients times the weight, in place; zeros for a step in which no target counts."""
    if isinstance(weight, Tensor) and weight.device.type != "cpu":
        return gradients.masked_fill_(weight == 0, 0.0).mul_(weight)
    return gradients.mul_(weight) if weight else gradients.zero_()

"""Norms of divided tensors, equal bits in every process."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from andiron.distributed import World
from andiron_lab.sharded.parameter_rows import bounds, part


def norm(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Tensor:
    """The norm of all elements of one tensor."""
    tensor, *more = arguments
    if more[1:] and more[1] is not None or options.get("dim") is not None:
        raise NotImplementedError("strategy=fsdp: a norm over some dimensions of a parameter")
    return norms(world, operation, ([tensor], *more[:1]), options)[0]


def norms(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> list[Tensor]:
    """The norm of each tensor, equal bits in every process.

    With `slices` the bits of torch's norm of the whole tensor, which one process computes. Only the
    first copy of the model is counted, so that no other number can arise in another.
    """
    tensors, order = arguments[0], arguments[1] if len(arguments) > 1 else options.get("ord", 2)
    device = tensors[0].device
    sums = torch.zeros(len(tensors), dtype=tensors[0].dtype, device=device)
    if world.slices is None and order == 2:
        for place, tensor in enumerate(tensors):
            if world.rank < (tensor.device_mesh.size() if isinstance(tensor, DTensor) else 1):
                sums[place] = torch.linalg.vector_norm(part(tensor)).square()
        _add(sums, world)
        return [*sums.sqrt()]
    divided = [place for place, tensor in enumerate(tensors) if isinstance(tensor, DTensor)]
    for place, whole in wholes([tensors[place] for place in divided], world):
        sums[divided[place]] = torch.linalg.vector_norm(whole, order)
    if world.rank == 0:
        for place in {*range(len(tensors))}.difference(divided):
            sums[place] = torch.linalg.vector_norm(tensors[place], order)
    _add(sums, world)
    return [*sums]


def wholes(tensors: Sequence[DTensor], world: World) -> Iterator[tuple[int, Tensor]]:
    """The places and tensors that this process of the first copy has whole; see `turns`."""
    size = tensors[0].device_mesh.size() if tensors else 0
    for places in turns(tensors, size) if world.rank < size else ():
        whole = _exchanged([tensors[place] for place in places], world)
        if whole is not None:
            yield places[world.rank], whole


def turns(tensors: Sequence[Tensor], size: int) -> Iterator[list[int]]:
    """The places of the tensors that are exchanged at once: at most `size`, of one dtype.

    Each is then whole in the process that has its place among them.
    """
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        of_dtype = [place for place, tensor in enumerate(tensors) if tensor.dtype == dtype]
        for start in range(0, len(of_dtype), size):
            yield of_dtype[start : start + size]


def _exchanged(tensors: Sequence[DTensor], world: World) -> Tensor | None:
    """Sends the parts of each tensor to the process of its place; the whole one of this process."""
    own, rank, mesh = [*map(part, tensors)], world.rank, tensors[0].device_mesh
    sent = [tensor.numel() for tensor in own] + [0] * (mesh.size() - len(own))
    received = [0] * mesh.size()
    if rank < len(own):
        shape = tensors[rank].shape
        of_row = shape[1:].numel()
        received = [(last - first) * of_row for first, last in bounds(shape[0], mesh)]
    memory = own[0].new_empty(sum(received))
    flat = torch.cat([tensor.reshape(-1) for tensor in own])
    with world.explained():
        torch.distributed.all_to_all_single(memory, flat, received, sent, mesh.get_group())
    return memory.view(shape) if rank < len(own) else None


def _add(values: Tensor, world: World) -> None:
    with world.explained():
        torch.distributed.all_reduce(values)

"""Data in memory once a host: all processes of a run map the tensors of its first process."""

import os
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from andiron.data.structures import tensors_in
from andiron.distributed import World

LARGE_BYTES = 2**20
ALIGNMENT = 64  # bytes, as torch allocates


def map_once(datasets: Iterable[object], world: World) -> None:
    """Moves the large tensors of data sets to memory that all processes of a host share.

    The data sets are equal in all processes. A page that a process writes to becomes its own.
    On systems without such memory, the tensors are not moved.
    """
    if world.size == 1:
        return
    different = {  # several parts may be over one tensor
        id(tensor): tensor
        for dataset in datasets
        for tensor in tensors_in(getattr(dataset, "__dict__", {}))
        if _is_moved(tensor)
    }
    tensors = [*different.values()]
    hosts = world.gathered(_host(world.rank))
    first = hosts.index(hosts[world.rank])
    shares = hosts.count(hosts[world.rank]) > 1 and len(tensors) > 0
    descriptor = _copy_to_memory_file(tensors) if shares and first == world.rank else None
    own_path = None if descriptor is None else f"/proc/{os.getpid()}/fd/{descriptor}"
    if (path := world.gathered(own_path)[first]) is not None:
        _map(tensors, path)
    world.gathered(None)  # all have opened it
    if descriptor is not None:
        os.close(descriptor)


def _is_moved(tensor: Tensor) -> bool:
    is_plain = type(tensor) is Tensor and tensor.is_cpu and not tensor.requires_grad
    return is_plain and tensor.nbytes >= LARGE_BYTES and tensor.is_contiguous()


def _host(rank: int) -> str:
    """Equal in processes that see each other's open files; unique outside Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return boot + os.readlink("/proc/self/ns/pid")
    except OSError:
        return str(rank)


def _copy_to_memory_file(tensors: Sequence[Tensor]) -> int | None:
    """The descriptor of an anonymous memory file with these tensors; None if memory is short."""
    descriptor = os.memfd_create("andiron-data")
    try:
        os.posix_fallocate(descriptor, 0, _bounds(tensors)[-1])
    except OSError:
        os.close(descriptor)
        return None
    for tensor, part in zip(tensors, _mapped(tensors, f"/proc/self/fd/{descriptor}", True)):
        part.copy_(tensor)
    return descriptor


def _map(tensors: Sequence[Tensor], path: str) -> None:
    """Replaces the tensors' memory with a mapped file of the same size."""
    try:
        if os.stat(path).st_size != _bounds(tensors)[-1]:
            return
        parts = _mapped(tensors, path, False)
    except (OSError, RuntimeError):
        return
    for tensor, part in zip(tensors, parts):
        tensor.data = part


def _mapped(tensors: Sequence[Tensor], path: str, is_shared: bool) -> list[Tensor]:
    """Tensors like these mapped to a file; writes are shared, or private."""
    bounds = _bounds(tensors)
    memory = torch.from_file(path, is_shared, bounds[-1], dtype=torch.uint8)
    return [
        memory[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for tensor, start in zip(tensors, bounds)
    ]


def _bounds(tensors: Sequence[Tensor]) -> list[int]:
    """The byte offset of each tensor in the file, and the end of the last."""
    sizes = (-(-tensor.nbytes // ALIGNMENT) * ALIGNMENT for tensor in tensors)
    return [0, *accumulate(sizes)]

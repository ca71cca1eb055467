"""The rows of a tensor that each process holds: `torch.chunk` along the first dimension."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor


def part(tensor: Any) -> Any:
    """The rows of this process, in the same memory; other values as they are."""
    if not isinstance(tensor, DTensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def like(value: Tensor, whole: DTensor) -> DTensor:
    """Rows of this process as a part of a tensor that is divided like `whole`."""
    return DTensor.from_local(
        value, whole.device_mesh, whole.placements, run_check=False,
        shape=whole.shape, stride=whole.stride(),
    )  # fmt: skip


def rows(whole: Tensor, mesh: DeviceMesh) -> Tensor:
    """The rows of a whole tensor that this process of the mesh holds."""
    first, last = bounds(len(whole), mesh)[mesh.get_local_rank()]
    return whole[first:last]


def bounds(length: int, mesh: DeviceMesh) -> list[tuple[int, int]]:
    """The first row of each process and the row after its last, as in `torch.chunk`."""
    size = -(-length // mesh.size())
    return [
        (min(size * rank, length), min(size * (rank + 1), length)) for rank in range(mesh.size())
    ]

"""Copies of checkpoints in host memory that is reused from one to the next.

Fresh memory costs a page fault for each page when it is first written, more than the copy itself.
"""

import collections
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint

MOST_FREE = 2  # for the checkpoint being written and the one being taken

Key = tuple[str, str, torch.Size, torch.dtype, bool]  # file, name, shape, dtype, pinned


@dataclass(frozen=True)
class HostCopy:
    """A checkpoint as it was when it was copied; its tensors are complete once `wait` returns."""

    checkpoint: Checkpoint
    buffers: dict[Key, Tensor]
    events: tuple[Any, ...]  # recorded behind the copies, one for each device

    def wait(self) -> None:
        """Returns when the devices have copied."""
        for event in self.events:
            event.synchronize()


class HostBuffers:
    """Makes copies, and reuses the memory of those given back."""

    def __init__(self) -> None:
        # the buffers of whole copies: those of tensors that the run no longer has go with the next
        self._free = collections.deque[dict[Key, Tensor]](maxlen=MOST_FREE)

    def copy(self, checkpoint: Checkpoint, state: dict[str, Any]) -> HostCopy:
        """The checkpoint's tensors as they are now, with a `state` that nobody else changes.

        From a GPU the copy only begins here; later work in the same stream happens after it.
        """
        files = contents.tensors_by_file(checkpoint)
        sources = {
            (file, name, tensor.shape, tensor.dtype, tensor.is_cuda): tensor.detach()
            for file, tensors in files.items()
            for name, tensor in tensors.items()
        }
        free = self._free.popleft() if self._free else {}
        buffers = {
            key: free[key] if key in free else _like(tensor) for key, tensor in sources.items()
        }
        for pinned in (False, True):
            keys = [key for key in sources if key[-1] == pinned]
            if keys:  # one call: a thousand small copies would each cost their own
                torch._foreach_copy_(
                    [buffers[key] for key in keys],
                    [sources[key] for key in keys],
                    non_blocking=pinned,
                )
        devices = {tensor.device for tensor in sources.values() if tensor.is_cuda}
        copied: dict[str, dict[str, Tensor]] = {file: {} for file in files}
        for key, buffer in buffers.items():
            copied[key[0]][key[1]] = buffer
        return HostCopy(contents.from_files(copied, state), buffers, tuple(map(_event, devices)))

    def give_back(self, copy: HostCopy) -> None:
        """Takes back the memory of a copy that nobody reads any more."""
        self._free.append(copy.buffers)


def plain_copy(value: Any) -> Any:
    """A state with its own dictionaries and lists, since training goes on changing the original."""
    if isinstance(value, dict):
        return {name: plain_copy(inner) for name, inner in value.items()}
    return [plain_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _like(tensor: Tensor) -> Tensor:
    """Memory of the host for a tensor, contiguous."""
    return torch.empty(
        tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.is_cuda
    )


def _event(device: torch.device) -> Any:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event

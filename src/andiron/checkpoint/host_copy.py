"""Copies of checkpoints in host memory that is reused from one to the next.

Fresh memory costs a page fault for each page when it is first written, more than the copy itself.
"""

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint

MOST_FREE = 2  # of each buffer: for the checkpoint being written and the one being taken

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
        self._free: dict[Key, list[Tensor]] = defaultdict(list)
        self._lock = threading.Lock()

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
        buffers = self._taken(set(sources))
        for pinned in (False, True):
            keys = [key for key in sources if key[-1] == pinned]
            if keys:
                with torch.no_grad():  # one call: a thousand small copies would each cost their own
                    torch._foreach_copy_(
                        [buffers[key] for key in keys],
                        [sources[key] for key in keys],
                        non_blocking=pinned,
                    )
        devices = {tensor.device for tensor in sources.values() if tensor.is_cuda}
        copied: dict[str, dict[str, Tensor]] = {file: {} for file in files}
        for key, buffer in buffers.items():
            copied[key[0]][key[1]] = buffer
        ordered = {
            file: {name: copied[file][name] for name in tensors} for file, tensors in files.items()
        }
        return HostCopy(contents.from_files(ordered, state), buffers, tuple(map(_event, devices)))

    def give_back(self, copy: HostCopy) -> None:
        """Takes back the memory of a copy that nobody reads any more."""
        with self._lock:
            for key, buffer in copy.buffers.items():
                if len(self._free[key]) < MOST_FREE:
                    self._free[key].append(buffer)

    def _taken(self, keys: set[Key]) -> dict[Key, Tensor]:
        with self._lock:
            for key in set(self._free) - keys:  # tensors that the run no longer has
                del self._free[key]
            taken = {key: self._free[key].pop() for key in keys if self._free[key]}
        for key in keys - set(taken):
            taken[key] = torch.empty(key[2], dtype=key[3], device="cpu", pin_memory=key[4])
        return taken


def plain_copy(value: Any) -> Any:
    """A state with its own dictionaries and lists, since training goes on changing the original."""
    if isinstance(value, dict):
        return {name: plain_copy(inner) for name, inner in value.items()}
    return [plain_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _event(device: torch.device) -> Any:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event

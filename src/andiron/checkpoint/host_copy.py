"""Copies of checkpoints in reused host memory.

First writes to fresh memory cost a page fault a page, more than the copy itself.
"""

import collections
import json
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint, Tensors
from andiron.plain import fast_paths, private_torch

MOST_FREE = 2  # for the checkpoint being written and the one being taken


@dataclass(frozen=True)
class HostCopy:
    """A snapshot of a checkpoint; its tensors are complete once `wait` returns."""

    checkpoint: Checkpoint
    events: tuple[Any, ...]  # recorded after the copies, one for each device

    @property
    def size(self) -> int:
        """The bytes of the model and the optimizer."""
        tensors = (*self.checkpoint.model.values(), *self.checkpoint.optimizer.values())
        return sum(tensor.nbytes for tensor in tensors)

    def wait(self) -> None:
        """Waits until the devices have copied."""
        for event in self.events:
            event.synchronize()


class HostBuffers:
    """Makes copies, and reuses the memory of returned ones."""

    def __init__(self) -> None:
        self._free = collections.deque[Checkpoint](maxlen=MOST_FREE)

    def copy(self, checkpoint: Checkpoint, state: dict[str, Any]) -> HostCopy:
        """A snapshot of the checkpoint's tensors and the `state`.

        From a GPU the copy is only started; later work in the same stream runs after it.
        """
        reuses = self._free and fast_paths.on["memory of copies"]
        free = contents.tensors_by_file(self._free.popleft()) if reuses else {}
        copies: dict[str, Tensors] = {}
        pairs: dict[bool, list[tuple[Tensor, Tensor]]] = {False: [], True: []}  # by `is_cuda`
        for file, tensors in contents.tensors_by_file(checkpoint).items():
            copies[file] = {}
            for name, tensor in tensors.items():
                memory = _memory(tensor, free.get(file, {}).get(name))
                copies[file][name] = memory
                pairs[tensor.is_cuda].append((memory, tensor.detach()))
        for is_cuda, of_kind in pairs.items():
            if of_kind:  # one call: a thousand small copies would each cost their own
                targets, sources = zip(*of_kind, strict=True)
                private_torch.foreach_copy_(targets, sources, non_blocking=is_cuda)
        devices = {tensor.device for _, tensor in pairs[True]}
        # training keeps changing the state: it is copied by the encoder that will write it
        plain = json.loads(json.dumps(state))
        copied = replace(contents.from_files(copies, plain), frozen=checkpoint.frozen)
        return HostCopy(copied, tuple(map(_event, devices)))

    def give_back(self, copy: HostCopy) -> None:
        """Reclaims the memory of a copy that is no longer read."""
        self._free.append(copy.checkpoint)


def _memory(tensor: Tensor, free: Tensor | None) -> Tensor:
    """Host memory for a tensor: the free one if it fits."""
    if free is not None and (free.shape, free.dtype) == (tensor.shape, tensor.dtype):
        return free
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.is_cuda)


def _event(device: torch.device) -> Any:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event

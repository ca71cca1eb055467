"""Copies of checkpoints in the memory of the host."""

import json
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint, Tensors
from andiron.plain import private_torch


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


def copied(checkpoint: Checkpoint, state: dict[str, Any]) -> HostCopy:
    """A snapshot of the checkpoint's tensors and the `state`.

    From a GPU the copy is only started; later work in the same stream runs after it.
    """
    copies: dict[str, Tensors] = {}
    sources: list[Tensor] = []
    for file, tensors in contents.tensors_by_file(checkpoint).items():
        copies[file] = {
            name: torch.empty(t.shape, dtype=t.dtype, device="cpu", pin_memory=t.is_cuda)
            for name, t in tensors.items()
        }
        sources += map(Tensor.detach, tensors.values())
    targets = [memory for tensors in copies.values() for memory in tensors.values()]
    if targets:  # one call: a thousand small copies would each cost their own
        private_torch.foreach_copy_(targets, sources, non_blocking=True)
    devices = {tensor.device for tensor in sources if tensor.is_cuda}
    # training keeps changing the state: it is copied by the encoder that will write it
    plain = json.loads(json.dumps(state))
    copy = replace(
        contents.from_files(copies, plain), frozen=checkpoint.frozen, joined=checkpoint.joined
    )
    return HostCopy(copy, tuple(map(_event, devices)))


def _event(device: torch.device) -> Any:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event

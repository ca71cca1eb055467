"""The contents of a checkpoint: its name, its files and their tensors, and copies of them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron.plain import private_torch
from andiron.plain.plain_values import Plain

MODEL, OPTIMIZER, AVERAGE = "model.safetensors", "optimizer.safetensors", "model-{}.safetensors"
METRICS = "metrics.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
# no slash, which leads out of the folder; no lone surrogate, which file names cannot hold
_OWN_NAME = re.compile(
    r"(model(-(?P<average>[^/\0\ud800-\udfff]+?))??|optimizer|metrics|frozen)"
    r"(-[0-9]{5}-of-[0-9]{5})?\.safetensors"
    r"|(state|manifest|model\.safetensors\.index)\.json"
)
_STEP = re.compile(r"step-(0|[1-9][0-9]*)(?:\.([2-9]|[1-9][0-9]+))?")

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to resume.

    The tensors of model and optimizer by name, plain values (`state`), averages of the weights, and
    metric sums of the open window. `folder` is where it was read from. The tensors of the model
    named in `frozen` do not train; checkpoints share the file that has them. Where each process
    writes a file, `joined` adds the files of others, and `reread` reads all of them again.
    """

    model: Tensors
    optimizer: Tensors
    state: Plain
    averages: dict[str, Tensors] = field(default_factory=dict)
    metrics: Tensors = field(default_factory=dict)
    folder: Path | None = None
    frozen: frozenset[str] = frozenset()
    joined: Callable[[Plain], Plain] | None = None
    reread: Callable[[Plain], "Checkpoint"] | None = None  # with its state

    def __reduce__(self) -> Any:
        """The tensors for another process, or how it maps their files into its memory."""
        return (self.reread, (self.state,)) if self.reread else super().__reduce__()

    def place(self, file: str) -> str:
        """The path of one of its files, for messages."""
        return file if self.folder is None else str(self.folder / file)


def step_name(updates: int, number: int) -> str:
    """The name of a checkpoint: step-<updates>; then step-<updates>.2, .3 ..."""
    return f"step-{updates}" if number == 1 else f"step-{updates}.{number}"


def step_place(name: str) -> tuple[int, int] | None:
    """Updates and number in a checkpoint's name, which sort by age; None for other names."""
    match = _STEP.fullmatch(name)
    return (int(match[1]), int(match[2] or 1)) if match else None


def is_own(name: str) -> bool:
    """Whether a checkpoint can have a file of this name."""
    return _OWN_NAME.fullmatch(name) is not None


def undivided(name: str) -> str:
    """The name of the file of which `name` is a part, such as model-00001-of-00002.safetensors."""
    return re.sub(r"-[0-9]{5}-of-[0-9]{5}\.", ".", name)


def average_in(name: str) -> str | None:
    """The name of the average stored in a file of this name; None for other files."""
    match = _OWN_NAME.fullmatch(name)
    return match["average"] if match else None


def tensors_by_file(checkpoint: Checkpoint) -> dict[str, Tensors]:
    """The tensors of each file; without an open window there is no file for metrics.

    Raises: ValueError for an average whose name cannot be part of a file name.
    """
    files: dict[str, Tensors] = {MODEL: checkpoint.model, OPTIMIZER: checkpoint.optimizer}
    for name, average in checkpoint.averages.items():
        file = AVERAGE.format(name)
        if average_in(file) != name:
            raise ValueError(
                f"average {name!r}: is part of a file name and cannot contain a slash; rename it"
            )
        files[file] = average
    return files | ({METRICS: checkpoint.metrics} if checkpoint.metrics else {})


def from_files(
    files: Mapping[str, Tensors], state: Plain, folder: Path | None = None
) -> Checkpoint:
    """The checkpoint with these tensors by file; `folder` is where they were read from."""
    averages = {average: files[name] for name in files if (average := average_in(name))}
    metrics = files.get(METRICS, {})
    return Checkpoint(files[MODEL], files[OPTIMIZER], state, averages, metrics, folder)


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


def copied(checkpoint: Checkpoint, state: Plain) -> HostCopy:
    """A snapshot of the checkpoint's tensors and the `state`.

    From a GPU the copy is only started; later work in the same stream runs after it.
    """
    copies: dict[str, Tensors] = {}
    sources: list[Tensor] = []
    for file, tensors in tensors_by_file(checkpoint).items():
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
        from_files(copies, plain), frozen=checkpoint.frozen, joined=checkpoint.joined
    )
    return HostCopy(copy, tuple(map(_event, devices)))


def _event(device: torch.device) -> Any:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event

"""What a checkpoint holds: its name, its files, and what is in which file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

MODEL, OPTIMIZER, AVERAGE = "model.safetensors", "optimizer.safetensors", "model-{}.safetensors"
METRICS = "metrics.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
# no slash leads out of the folder, and a file name cannot hold half of a surrogate pair
_OWN_NAME = re.compile(
    r"(model(-(?P<average>[^/\0\ud800-\udfff]+))?|optimizer|metrics)\.safetensors"
    r"|(state|manifest)\.json"
)
_STEP = re.compile(r"step-(0|[1-9][0-9]*)(?:\.([2-9]|[1-9][0-9]+))?")

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to resume.

    The tensors of model and optimizer by name, plain values (`state`), averages of the weights, and
    the sums of metrics whose window is open. `folder` is where it was read.
    """

    model: Tensors
    optimizer: Tensors
    state: dict[str, Any]
    averages: dict[str, Tensors] = field(default_factory=dict)
    metrics: Tensors = field(default_factory=dict)
    folder: Path | None = None

    def place(self, file: str) -> str:
        """The path of one of its files, as messages name it."""
        return file if self.folder is None else str(self.folder / file)


def step_name(updates: int, number: int) -> str:
    """The name of a checkpoint: step-<updates>; step-<updates>.2, .3 ... for further ones there."""
    return f"step-{updates}" if number == 1 else f"step-{updates}.{number}"


def step_place(name: str) -> tuple[int, int] | None:
    """Updates and number of a checkpoint's name, whose order is its age; None for other names."""
    match = _STEP.fullmatch(name)
    return (int(match[1]), int(match[2] or 1)) if match else None


def is_own(name: str) -> bool:
    """Whether a file of a checkpoint can have this name."""
    return _OWN_NAME.fullmatch(name) is not None


def average_in(name: str) -> str | None:
    """The name of the average whose weights a file of this name holds; None for other files."""
    match = _OWN_NAME.fullmatch(name)
    return match["average"] if match else None


def tensors_by_file(checkpoint: Checkpoint) -> dict[str, Tensors]:
    """The tensors of each file; there is none for metrics if no window is open.

    Raises: ValueError for an average whose name cannot be part of a file name.
    """
    files: dict[str, Tensors] = {MODEL: checkpoint.model, OPTIMIZER: checkpoint.optimizer}
    for name, average in checkpoint.averages.items():
        file = AVERAGE.format(name)
        if not is_own(file):
            raise ValueError(
                f"average {name!r}: is part of a file name and cannot contain a slash; rename it"
            )
        files[file] = average
    return files | ({METRICS: checkpoint.metrics} if checkpoint.metrics else {})


def from_files(
    files: Mapping[str, Tensors], state: dict[str, Any], folder: Path | None = None
) -> Checkpoint:
    """The checkpoint with these tensors by file; `folder` is where they were read."""
    averages = {average: files[name] for name in files if (average := average_in(name))}
    metrics = files.get(METRICS, {})
    return Checkpoint(files[MODEL], files[OPTIMIZER], state, averages, metrics, folder)

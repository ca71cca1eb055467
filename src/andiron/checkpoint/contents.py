"""What a checkpoint holds, and which of it lies in which file of its folder."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

MODEL, OPTIMIZER, AVERAGE = "model.safetensors", "optimizer.safetensors", "model-{}.safetensors"
METRICS = "metrics.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
# no slash leads out of the folder, and no half of a character stands in a name
_OWN_NAME = re.compile(
    r"(model(-[^/\0\ud800-\udfff]+)?|optimizer|metrics)\.safetensors|(state|manifest)\.json"
)

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on: tensors by name, the plain values around them, averages of the weights, open metrics."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    averages: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    metrics: dict[str, Tensor] = field(default_factory=dict)


def is_own(name: str) -> bool:
    """Whether a file of a checkpoint can have this name."""
    return _OWN_NAME.fullmatch(name) is not None


def tensors_by_file(checkpoint: Checkpoint) -> dict[str, Tensors]:
    """The tensors of each file; the one for metrics is left out where no window is open.

    Raises: ValueError for an average whose name no file can have.
    """
    files: dict[str, Tensors] = {MODEL: checkpoint.model, OPTIMIZER: checkpoint.optimizer}
    for name, average in checkpoint.averages.items():
        if not is_own(AVERAGE.format(name)):
            raise ValueError(
                f"average {name!r}: names a file of its checkpoint, so no slash stands in it; rename it"
            )
        files[AVERAGE.format(name)] = average
    return files | ({METRICS: checkpoint.metrics} if checkpoint.metrics else {})


def from_files(files: Mapping[str, dict[str, Tensor]], state: dict[str, Any]) -> Checkpoint:
    """The checkpoint that has these tensors by file."""
    prefix, _, suffix = AVERAGE.partition("{}")
    averages = {
        name.removeprefix(prefix).removesuffix(suffix): files[name]
        for name in files
        if name.startswith(prefix)
    }
    return Checkpoint(files[MODEL], files[OPTIMIZER], state, averages, files.get(METRICS, {}))

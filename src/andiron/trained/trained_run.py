"""A run that was trained, with its network ready to call; what takes time is read when it is used.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from andiron.build import components
from andiron.config.schema import Train
from andiron.data import Splits
from andiron.data.described import Described
from andiron.run import metric_table, run_record
from andiron.run.metric_table import Table
from andiron.run_folder import RunFolder


@dataclass(frozen=True, eq=False)
class Run:
    """What `andiron.load` gives.

    `model` is the task around the network, in evaluation mode, with the `weights` that were asked
    for: `model(inputs)` gives logits of preprocessed inputs, or values in the targets' own unit.
    `preprocessing` has the facts of the data and the batcher of the training; `folder` names the
    run's files, and `folder.path` is where they are.
    """

    folder: RunFolder
    config: Train
    model: nn.Module
    weights: str
    preprocessing: Described
    device: torch.device

    def __repr__(self) -> str:
        name = type(self.model).__name__
        return f"Run({str(self.folder.path)!r}, weights={self.weights!r}, model={name})"

    @cached_property
    def metrics(self) -> Table:
        """Every logged value: columns split, updates, epoch, over (window or epoch), and values.

        `pandas.DataFrame(run.metrics)` and `polars.DataFrame(run.metrics)` take it as it is.
        """
        return metric_table.read(self.folder)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json; empty if the run is not finished.

        Raises: DataError if it was changed.
        """
        if not self.folder.summary.exists():
            return {}
        found: dict[str, Any] = run_record.read_json(self.folder, self.folder.summary)
        return found

    @cached_property
    def data(self) -> Splits:
        """The data that the run was trained on, in its parts; nothing is downloaded or cached.

        Raises: DataError if they are not there any more.
        """
        with components.unwritten():
            return components.data(self.config)

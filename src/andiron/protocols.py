"""The borders between the parts: what a model, a metric, a loader, a writer and a renderer must offer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from andiron.gradients import Gradients

Values = dict[str, float]


@dataclass(frozen=True)
class TrainOutput:
    """What a training step returns: gradients for the optimizer, an item for the metrics.

    `weight` is what the loss is a mean over, samples or tokens: by it micro-batches make up one large batch.
    """

    gradients: Gradients
    item: Any
    weight: float | int | Tensor = 1


@runtime_checkable
class TrainStep(Protocol):
    """A model that can compute the gradients of one batch."""

    def train_step(self, batch: Any) -> TrainOutput: ...


@runtime_checkable
class ValidStep(Protocol):
    """A model that can be measured on one batch; called in evaluation mode, without gradients."""

    def valid_step(self, batch: Any) -> Any: ...


@runtime_checkable
class Metric(Protocol):
    """A quantity whose mean over an epoch is total / count, summed over batches."""

    name: str
    higher_is_better: bool

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        """(total, count) of one batch, left on its device; the count may be a plain int.

        A total in parts will do, a tensor whose sum it is: a window's batches are then added up in one operation.
        """
        ...


@runtime_checkable
class Loader(Protocol):
    """Batches in an order that is a function of the epoch."""

    def __len__(self) -> int:
        """Batches in an epoch."""
        ...

    @property
    def num_items(self) -> int: ...

    def epoch(self, epoch: int) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Point:
    """Values measured on one split after a number of completed updates; `whole_epoch` for an epoch's own mean."""

    split: str
    updates: int
    epoch: int  # counted from 1
    values: Values
    whole_epoch: bool = False
    histograms: Mapping[str, Tensor] = field(default_factory=dict)  # tensors whose distribution a writer may show, by tag


@runtime_checkable
class Writer(Protocol):
    """A place where every logged value goes."""

    def write(self, point: Point) -> None: ...

    def close(self) -> None: ...


@dataclass
class Progress:
    """Where the run stands: the learner writes it, a renderer reads it whenever it draws."""

    num_epochs: int
    num_batches: int = 0  # in a training epoch
    num_items: int = 0
    epoch: int = 1
    batch: int = 0
    updates: int = 0
    first_epoch: int = 1
    latest: dict[str, Values] = field(default_factory=dict)  # by split


@runtime_checkable
class Renderer(Protocol):
    """What shows a run to the person who started it."""

    def start(self, progress: Progress) -> None: ...

    def epoch_ended(self, progress: Progress, seconds: float) -> None: ...

    def stop(self) -> None: ...

    def show(self, summary: dict[str, Any]) -> None: ...

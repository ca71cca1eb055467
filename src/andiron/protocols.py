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
    weight: float | Tensor = 1


@runtime_checkable
class TrainStep(Protocol):
    """A model that can compute the gradients of one batch."""

    def train_step(self, batch: Any) -> TrainOutput: ...


@runtime_checkable
class ValidStep(Protocol):
    """A model that can be measured on one batch; called in evaluation mode, without gradients."""

    def valid_step(self, batch: Any) -> Any: ...


@runtime_checkable
class Shows(Protocol):
    """A model with something to look at after each validation: samples of text, generated images."""

    def samples(self) -> dict[str, "str | Tensor"]:
        """Markdown, or uint8 images [channels, height, width], by name; called in evaluation mode, without gradients."""
        ...


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
class Statistic(Protocol):
    """A quantity that is no mean: computed from sums over all batches, or from all samples side by side.

    What a batch gives is a tuple of tensors, always as many. Unless `gathers`, they have the same shapes every time and are
    added up; with `gathers` they are kept and concatenated along their first dimension, which takes memory for every sample.
    """

    name: str
    higher_is_better: bool
    gathers: bool

    def __call__(self, item: Any) -> tuple[Tensor, ...]:
        """The parts of one batch, left on its device."""
        ...

    def value(self, *parts: Tensor) -> float | Values | str | None:
        """What the parts of all batches come to: a number, several by name, a Markdown page; None where it is undefined.

        The parts are on the CPU; sums are float64 (exact for counts below 2^53), what was gathered has its own type.
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

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Any]:
        """The batches of one epoch from `first_batch` on, both counted from 0."""
        ...


@dataclass(frozen=True)
class Point:
    """Values measured on one split after a number of completed updates; `whole_epoch` for an epoch's own mean."""

    split: str
    updates: int
    epoch: int  # counted from 1
    values: Values
    whole_epoch: bool = False
    histograms: Mapping[str, Tensor] = field(
        default_factory=dict
    )  # tensors whose distribution a writer may show, by tag
    texts: Mapping[str, str] = field(default_factory=dict)  # Markdown pages, by tag
    images: Mapping[str, Tensor] = field(
        default_factory=dict
    )  # uint8 [channels, height, width], 1 or 3 channels, by tag


@runtime_checkable
class Writer(Protocol):
    """A destination of every logged value."""

    def write(self, point: Point) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Rewinds(Protocol):
    """A writer that can return to an earlier position, so that a resumed run logs no value twice."""

    def position(self) -> dict[str, Any]:
        """How far it has come, as plain values; stored in every checkpoint."""
        ...

    def rewind(self, position: Mapping[str, Any], updates: int) -> None:
        """Returns to a position that was stored after `updates` completed updates."""
        ...


@runtime_checkable
class Sessions(Protocol):
    """A writer that shows a run's hyperparameters, pages of text, and outcome."""

    def start_session(
        self, hyperparameters: Mapping[str, bool | int | float | str], texts: Mapping[str, str]
    ) -> None:
        """Called once, before the first update; `texts` are Markdown pages by name."""
        ...

    def end_session(self, *, succeeded: bool) -> None:
        """Called when the run is done or has failed, not when it is interrupted."""
        ...


@dataclass
class Progress:
    """Where the run stands: the learner writes it, a renderer reads it whenever it draws."""

    num_epochs: int
    num_batches: int = 0  # in a training epoch
    num_items: int = 0
    epoch: int = 1
    batch: int = 0
    updates: int = 0
    first_epoch: int = 1  # of this process, and how many of its batches were trained before
    first_batch: int = 0
    latest: dict[str, Values] = field(default_factory=dict)  # by split


@runtime_checkable
class Renderer(Protocol):
    """What shows a run to the person who started it."""

    def start(self, progress: Progress) -> None: ...

    def epoch_ended(self, progress: Progress, seconds: float) -> None: ...

    def stop(self) -> None: ...

    def show(self, summary: dict[str, Any]) -> None: ...

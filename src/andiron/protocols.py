"""The protocols of models, items, metrics, loaders, writers and renderers, for users to extend.

>>> class Margin:  # a metric: the mean of a value for each sample
...     name, higher_is_better = "margin", True
...
...     def __call__(self, item):
...         return item.output.amax(-1) - item.output.amin(-1), len(item.output)
>>> isinstance(Margin(), Metric)
True
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, UInt8
from torch import Tensor

from andiron.gradients import Gradients
from andiron.outputs import Weight
from andiron.plain.plain_values import Plain
from andiron.progress import Progress

Values = dict[str, float]
Hyperparameters = Mapping[str, bool | int | float | str]
Pages = Mapping[str, str]  # Markdown by name
Position = Any  # of a writer: what a checkpoint can hold, such as a number, texts or a dict
Parts = tuple[Any, ...]  # of a metric, from one batch: tensors; a count may be a plain int


@dataclass(frozen=True)
class Decisions:
    """True positives, false positives, true negatives and false negatives by threshold.

    A sample is positive if its probability is at least the threshold; thresholds are evenly spaced
    from 0 to 1.
    """

    counts: Float[Tensor, "4 thresholds"]


# a number, a Markdown text, a uint8 picture [channels, height, width], decisions, or undefined
Value = float | str | Tensor | Decisions | None
Result = Value | Mapping[str, Value]


@runtime_checkable
class Item(Protocol):
    """The result of a step for the metrics: a class of `andiron.outputs`, or one of your own.

    Shipped metrics also read `output`, `targets` and, if some targets may be IGNORED,
    `has_ignored`; sequence metrics read `num_bytes` and `nll`.
    """

    @property
    def loss(self) -> Tensor:
        """The mean loss of the batch."""

    @property
    def weight(self) -> Any:
        """The number of samples or tokens the loss is a mean over; None: the targets that count."""

    def detached(self) -> Any:
        """The values without their graph."""


@dataclass(frozen=True)
class TrainOutput:
    """The result of a training step: gradients for the optimizer, an item for the metrics.

    `weight` is the count the loss is a mean over; accumulation weights micro-batches by it.
    """

    gradients: Gradients
    item: Any
    weight: Weight = 1


@runtime_checkable
class TrainStep(Protocol):
    """A model that can compute the gradients of one batch."""

    def train_step(self, batch: Any) -> TrainOutput: ...


@runtime_checkable
class ValidStep(Protocol):
    """A model that can be validated; called in evaluation mode, without gradients."""

    def valid_step(self, batch: Any) -> Any: ...


@runtime_checkable
class FromLatents(Protocol):
    """A model whose inputs are not data, but random numbers."""

    def generator_inputs(self, number: int) -> Tensor: ...


def network_of(model: object) -> Any:
    """The network inside a task; another model is its own."""
    return getattr(model, "network", model)


@runtime_checkable
class Shows(Protocol):
    """A model that shows samples after each validation: text or generated images."""

    def samples(self) -> dict[str, "str | Tensor"]:
        """Markdown, or uint8 images [channels, height, width], by name; called as `valid_step`."""


@runtime_checkable
class Metric(Protocol):
    """A quantity computed from the merged parts of all batches.

    Without a method `value`, the parts are (total, count) and the value is total / count; a total
    with several elements stands for their sum, so it may have an element for each sample.
    With `value`, see `Statistic`. A metric may also have these attributes:

    - `gathers = True`: its parts are concatenated along their first dimension, not added up;
    - `needs_batch = True`: it is called with (item, batch);
    - `validation_only = True`: it is not measured on training batches;
    - `check_batch(raw)`: it refuses data of which it cannot be measured, before a run.
    """

    name: str
    higher_is_better: bool | None  # None: no value is best, such as of a weight that changes

    def __call__(self, item: Any) -> Parts:
        """The parts of one batch, on its device."""


@runtime_checkable
class Statistic(Metric, Protocol):
    """A metric that is not a mean: it computes its value from the merged parts.

    Every batch gives the same number of tensors. They have the same shapes each time and are added
    up, or are concatenated if the metric `gathers`, which takes memory for every sample.
    """

    def value(self, *parts: Tensor) -> Result:
        """The value of the merged parts, or several by name; None if undefined.

        The parts are on the CPU; sums are float64 (exact for counts below 2^53), concatenated
        parts have their own dtype.
        """


@runtime_checkable
class Loader(Protocol):
    """Batches in an order that is a function of the epoch."""

    def __len__(self) -> int:
        """Batches in an epoch."""

    @property
    def num_items(self) -> int: ...

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Any]:
        """The batches of one epoch from `first_batch` on, both counted from 0."""


def batch_size_of(loader: object) -> int | None:
    """The number of samples in a whole batch; None if the loader does not tell."""
    return getattr(loader, "batch_size", None)


@dataclass(frozen=True)
class Point:
    """Values measured on one split after a number of completed updates.

    With `whole_epoch` they cover a whole epoch or validation, not a window.
    """

    split: str
    updates: int
    epoch: int  # counted from 1
    values: Values
    whole_epoch: bool = False
    # by tag: tensors whose distribution a writer may show
    histograms: Mapping[str, Tensor] = field(default_factory=dict)
    texts: Pages = field(default_factory=dict)  # Markdown pages by tag
    # by tag: uint8 [channels, height, width] with 1 or 3 channels
    images: Mapping[str, Tensor] = field(default_factory=dict)
    # by tag: a precision-recall curve
    decisions: Mapping[str, Decisions] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One operation of a model's graph; its name begins with the path of modules around it.

    `inputs` are names of operations, `shapes` its outputs' shapes, `weights` the parameters used.
    """

    name: str
    kind: str
    inputs: list[str]
    shapes: list[list[int]]
    weights: str = ""


@dataclass(frozen=True)
class Embeddings:
    """The features of samples, and columns of labels by name.

    `pictures` has all samples, row by row in a square, each of `picture_size`.
    """

    features: Float[Tensor, "samples features"]
    columns: Mapping[str, Sequence[str]]
    pictures: UInt8[Tensor, "channels height width"] | None = None
    picture_size: tuple[int, int] = (0, 0)  # height and width


@runtime_checkable
class Writer(Protocol):
    """A destination of every logged value."""

    def write(self, point: Point) -> None: ...

    def close(self) -> str | None:
        """Ends the writing; returns a description of lost values, if known."""


@runtime_checkable
class Rewinds(Protocol):
    """A writer that can return to an earlier position: a resumed run logs no value twice."""

    def position(self) -> Position:
        """The current position; stored in every checkpoint."""

    def rewind(self, position: Position, updates: int) -> None:
        """Returns to a position that was stored after `updates` completed updates."""


@runtime_checkable
class Sessions(Protocol):
    """A writer that shows a run's hyperparameters, pages of text, and outcome."""

    def start_session(self, hyperparameters: Hyperparameters, texts: Pages) -> None:
        """Called once, before the first update; `texts` are Markdown pages by name."""

    def end_session(self, *, succeeded: bool) -> None:
        """Called when the run is done or has failed, not when it is interrupted."""


@runtime_checkable
class ShowsModel(Protocol):
    """A writer that shows the model itself, if configured to: else it calls nothing."""

    def show_graph(self, traced: Callable[[], Sequence[Operation]]) -> None:
        """Shows the operations of the model; called once, before the first update."""

    def show_embeddings(self, computed: Callable[[int], Embeddings]) -> None:
        """Shows the trained model's embeddings of validation samples."""


@runtime_checkable
class Renderer(Protocol):
    """Shows a run to the person who started it."""

    def start(self, progress: Progress) -> None: ...

    def epoch_ended(self, progress: Progress, seconds: float) -> None: ...

    def stop(self) -> None: ...

    def show(self, summary: Plain) -> None: ...

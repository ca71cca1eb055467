"""The seam between a learner and the place of its run, such as a folder on the disk.

A learner asks its host to claim that place while it trains, and hands over the results. Who reads
the training loop needs no more of a run's folder than this.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from andiron.learner.position import Position
from andiron.protocols import Loader

Summary = dict[str, Any]
Show = Callable[[Summary], None]
Weights = Mapping[str, Mapping[str, Tensor]]  # by name: `model`, and each average


@runtime_checkable
class RunSession(Protocol):
    """A run while it is trained."""

    def updated(self, directions: Mapping[str, str]) -> None:
        """Called once metrics and the log have taken the first update: the run has begun.

        `directions` has `highest` or `lowest` by metric.
        """

    def end(self, note: str | None) -> None:
        """Called at the end of the training; `note` is why it is before the length is reached."""


@runtime_checkable
class RunHost(Protocol):
    """The place of a run; `is_recorded` if results are written there when the run is over.

    `class_names` are for the worst classes in the results; None numbers them.
    """

    is_recorded: bool
    class_names: Sequence[str] | None

    def resume(self, load: Callable[[], Path], at: Position) -> Path:
        """The checkpoint that `load` continues from, `at` a position; training continues the run.
        """

    def training(
        self, train: Loader, at: Position, *, is_over: bool
    ) -> AbstractContextManager[RunSession | None]:
        """Claims the place and records the run; a finished run that stays as it is gives None.

        An error before the first update undoes it.
        """

    def write_results(self, summary: Summary, show: Show, weights: Weights) -> None:
        """Writes the summary, with what the place knows of the run; shows it; writes the weights.
        """


class NoHost:
    """For a learner that writes nothing, or does so beside another process."""

    is_recorded = False
    class_names: Sequence[str] | None = None

    def updated(self, directions: Mapping[str, str]) -> None:
        """There is nothing to begin."""

    def end(self, note: str | None) -> None:
        """There is nothing to end."""

    def resume(self, load: Callable[[], Path], at: Position) -> Path:
        """The checkpoint that `load` continues from."""
        return load()

    def training(
        self, train: Loader, at: Position, *, is_over: bool
    ) -> AbstractContextManager[RunSession | None]:
        """Claims nothing."""
        return nullcontext(self)

    def write_results(self, summary: Summary, show: Show, weights: Weights) -> None:
        """Shows the summary, which is written nowhere."""
        show(summary)

"""Instruments see each update that is made again: its batches, its gradients, its outcome."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from andiron.data import Splits
from andiron.data.loader import DataLoader
from andiron.gradients import Gradients
from andiron.learner import Learner
from andiron.learner.extras.observers import Step
from andiron.learner.position import Position
from andiron.shell.assembly.components import Components


@dataclasses.dataclass(frozen=True)
class Update:
    """An update that is made again; `number` counts from 1, `epoch` and `first_batch` from 0."""

    number: int
    epoch: int
    first_batch: int
    learner: Learner
    train: DataLoader
    batches: Sequence[Any]
    splits: Splits  # the run's data, with its facts
    gradients: Gradients | None = None  # their mean, before clipping; None until it is computed
    items: Sequence[Any] = ()

    @property
    def indices(self) -> list[list[int]]:
        """The samples of each batch, as their indices in the training data."""
        numbers = range(self.first_batch, self.first_batch + len(self.batches))
        return [self.train.indices(self.epoch, number) for number in numbers]


class Instrument:
    """Sees each update of a stretch; an own one overrides what it needs."""

    def before(self, update: Update) -> None:
        """The model has the weights that the update begins with, and is about to be called."""

    def computed(self, update: Update) -> None:
        """The mean gradients are computed; the model still has its former weights."""

    def after(self, update: Update) -> None:
        """The update is made, or skipped as non-finite."""


class Watch:
    """Shows the updates of a learner in a range to instruments."""

    def __init__(
        self, shown: range, instruments: Sequence[Instrument], learner: Learner, built: Components
    ):
        self._shown, self._instruments = shown, instruments
        self._learner, self._built = learner, built
        self._update: Update | None = None  # until it is made
        if instruments:
            learner.updater.instruments.append(self)

    def before(self, batches: Sequence[object], position: Position) -> None:
        """Shows the update that begins, if it is in the range."""
        if position.updates + 1 in self._shown:
            place = position.updates + 1, position.epoch, position.first_batch
            built = self._built
            self._update = Update(*place, self._learner, built.train, batches, built.splits)
            for instrument in self._instruments:
                instrument.before(self._update)

    def computed(self, gradients: Gradients, items: Sequence[object]) -> None:
        """Shows its mean gradients."""
        if self._update is not None:
            self._update = dataclasses.replace(self._update, gradients=gradients, items=items)
            for instrument in self._instruments:
                instrument.computed(self._update)

    def saw(self, step: Step) -> None:
        """Shows what was made, if it is an update."""
        if self._update is not None and step.kind in ("update", "skipped"):
            for instrument in self._instruments:
                instrument.after(self._update)
            self._update = None

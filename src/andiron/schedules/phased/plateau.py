"""The schedule that lowers the learning rate when a metric stops improving."""

from __future__ import annotations  # help() shows them as they stand

from collections.abc import Mapping
from typing import Any

from andiron.plain import improvement
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import Direction, Fraction, Index, NonNegative, Positive, Proportion, checked
from andiron.schedules.single_curve import check_minimum


@checked
class Plateau:
    """lr(t) = lr; after more than `patience` validations without a gain, lr = max(lr * factor,
    min_lr).

    A gain is a value below best * (1 - threshold), or above best * (1 + threshold) if `direction`
    is highest. If best is negative the sign of threshold changes, so that the margin stays on the
    right side. Torch's ReduceLROnPlateau is otherwise the same, but that it makes no change of lr
    below 1e-8, and that an infinite first value counts as no gain. State: lr, initial_lr, best, and
    the validations since the last gain; a resume with another initial_lr scales lr by the same
    ratio. It observes every validation on `split`, also while
    another part of a Sequential is active.
    """

    def __init__(
        self,
        initial_lr: Positive,
        factor: Proportion = 0.1,
        *,
        patience: Index = 10,
        threshold: Fraction = 1e-4,
        min_lr: NonNegative = 0.0,
        metric: str = "loss",
        split: str = "valid",
        direction: Direction = "lowest",
    ):
        check_minimum(min_lr, initial_lr=initial_lr)
        self.initial_lr = initial_lr
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.min_lr = min_lr
        self.metric = metric
        self.split = split
        self.direction = direction
        self._position: Any = None  # of the run
        self._is_loaded = False
        self._begin()

    def start(self, position: Any) -> None:
        """Begins anew with another run, unless a state was loaded for it."""
        if position is not self._position and not position.updates and not self._is_loaded:
            self._begin()
        self._position, self._is_loaded = position, False

    def _begin(self) -> None:
        self.lr = self.initial_lr
        self.best: float | None = None
        self.validations_without_gain = 0

    def __call__(self, updates: int) -> float:
        """The current learning rate, for any number of updates."""
        return self.lr

    def observe(self, values: Mapping[str, Mapping[str, float]]) -> None:
        """Observes the latest values by split and metric; lowers the learning rate if due.

        Raises: KeyError if the metric was not measured.
        """
        value = improvement.measured(values, self.split, self.metric, waiting="the learning rate")
        if improvement.is_better(
            value, self.best, self.direction, margin=self.threshold, is_relative=True
        ):
            self.best = value
            self.validations_without_gain = 0
        else:
            self.validations_without_gain += 1
        if self.validations_without_gain > self.patience:
            self.lr = max(self.lr * self.factor, self.min_lr)
            self.validations_without_gain = 0

    def state_dict(self) -> Plain:
        """The learning rate, the best value, and the validations since, as plain JSON values."""
        # the key of checkpoints since the first: a validation was an epoch then
        since = {"epochs_without_gain": self.validations_without_gain}
        return {"lr": self.lr, "initial_lr": self.initial_lr, "best": self.best, **since}

    def load_state_dict(self, state: Named) -> None:
        """Continues from a saved state.

        Raises: ValueError for a negative learning rate, or a best value that is not a number.
        """
        lr, best = state["lr"], state["best"]
        before = state.get("initial_lr", self.initial_lr)  # absent from earlier versions
        if lr < 0 or before <= 0 or isinstance(best, str | list | dict):
            raise ValueError(
                f"{lr=}, initial_lr={before}, {best=}: should be rates and a number, in the state "
                "of a Plateau"
            )
        self._is_loaded = True
        is_same = before == self.initial_lr
        self.lr = min(lr, before) if is_same else max(self.initial_lr * (lr / before), self.min_lr)
        self.best = best
        self.validations_without_gain = int(state["epochs_without_gain"])

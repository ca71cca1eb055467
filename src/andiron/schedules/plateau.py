"""The schedule that waits for a metric to stop improving."""

from collections.abc import Mapping
from typing import Any

from andiron import improvement
from andiron.schedules import argument_checks


class Plateau:
    """lr(t) = lr, which becomes max(lr * factor, min_lr) after more than `patience` epochs in a row without a gain.

    A gain is a value below best * (1 - threshold), or above best * (1 + threshold) where `direction` is highest; where
    best is negative the sign of threshold changes, so that the margin is never on the wrong side (torch's
    ReduceLROnPlateau, the same otherwise, leaves it there). Its state is lr, best and the epochs since the last gain;
    it observes every epoch of the run, also while another part of a Sequential is active.
    """

    def __init__(
        self,
        initial_lr: float,
        factor: float = 0.1,
        *,
        patience: int = 10,
        threshold: float = 1e-4,
        min_lr: float = 0.0,
        metric: str = "loss",
        split: str = "valid",
        direction: str = "lowest",
    ):
        argument_checks.check_not_negative(initial_lr=initial_lr, min_lr=min_lr)
        argument_checks.check_at_most("min_lr", min_lr, limit_name="initial_lr", limit=initial_lr)
        argument_checks.check_choice("direction", direction, allowed=improvement.DIRECTIONS)
        if not 0 < factor < 1:
            raise ValueError(
                f"factor={factor}: should be between 0 and 1; 0.1 leaves a tenth of the learning rate"
            )
        if not 0 <= threshold < 1:
            raise ValueError(
                f"threshold={threshold}: should be from 0 to below 1; 0 counts the smallest gain"
            )
        if patience < 0:
            raise ValueError(f"patience={patience}: should be 0 or more epochs; 0 waits for none")
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.min_lr = min_lr
        self.metric = metric
        self.split = split
        self.direction = direction
        self.lr = initial_lr
        self.best: float | None = None
        self.epochs_without_gain = 0

    def __call__(self, updates: int) -> float:
        """The learning rate now, whatever the number of updates."""
        return self.lr

    def observe(self, values: Mapping[str, Mapping[str, float]]) -> None:
        """Takes note of the latest values, by split, then by metric, and lowers the learning rate when it is time.

        Raises: KeyError if the metric it waits for was not measured.
        """
        value = improvement.measured(values, self.split, self.metric, waiting="the learning rate")
        if improvement.is_better(
            value, self.best, self.direction, margin=self.threshold, is_relative=True
        ):
            self.best = value
            self.epochs_without_gain = 0
        else:
            self.epochs_without_gain += 1
        if self.epochs_without_gain > self.patience:
            self.lr = max(self.lr * self.factor, self.min_lr)
            self.epochs_without_gain = 0

    def state_dict(self) -> dict[str, Any]:
        """The learning rate, the best value and the epochs since, as plain JSON values."""
        return {"lr": self.lr, "best": self.best, "epochs_without_gain": self.epochs_without_gain}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave."""
        self.lr, self.best, self.epochs_without_gain = (
            state["lr"],
            state["best"],
            state["epochs_without_gain"],
        )

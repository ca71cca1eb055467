"""When a run has learnt what it will: a decision after every epoch, as data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from andiron import improvement
from andiron.protocols import Values

MODES = ("absolute", "relative")


@dataclass(frozen=True)
class Stop:
    """The decision that the run ends here, and why."""

    reason: str


class EarlyStopping:
    """Ends a run when `metric` on `split` stays without a gain for `patience` epochs, reaches `goal`, or passes `divergence`.

    A gain is a value better by more than `min_delta` than at the last gain (`relative`: by that part of it). A goal is
    reached by a value as good or better; `divergence` is passed by one that is worse, and by one that is no finite number
    whether there is a limit or not. After `patience` epochs in a row without a gain the run ends, where Plateau waits for
    one more. With `restores_best` the run comes back with the weights of its best epoch.
    Raises: ValueError for arguments that no run could fit.
    """

    def __init__(
        self,
        metric: str,
        split: str = "valid",
        *,
        direction: str = "lowest",
        patience: int | None = None,
        min_delta: float = 0.0,
        min_delta_mode: str = "absolute",
        goal: float | None = None,
        divergence: float | None = None,
        restores_best: bool = False,
    ):
        _check_choices(
            direction=(direction, improvement.DIRECTIONS), min_delta_mode=(min_delta_mode, MODES)
        )
        _check_numbers(patience, min_delta, min_delta_mode)
        _check_limits(direction, goal, divergence)
        if patience is None and goal is None and divergence is None and not restores_best:
            raise ValueError(
                "there is nothing to stop for; give patience, goal or divergence, or restores_best"
            )
        self.metric = metric
        self.split = split
        self.direction = direction
        self.patience = patience
        self.min_delta = min_delta
        self.min_delta_mode = min_delta_mode
        self.goal = goal
        self.divergence = divergence
        self.restores_best = restores_best
        self.best: float | None = None
        self.epoch_of_best = 0
        self._value_at_gain: float | None = (
            None  # below `best` in merit where smaller gains came after it
        )
        self._epoch_of_gain = 0
        self._last: float | None = None
        self._last_epoch = 0

    def observe(self, latest: Mapping[str, Values], epoch: int) -> Stop | None:
        """Takes note of the values after `epoch`, counted from 1, and decides.

        Raises: KeyError if the metric was not measured.
        """
        value = improvement.measured(latest, self.split, self.metric, waiting="early stopping")
        if improvement.is_better(value, self.best, self.direction):
            self.best, self.epoch_of_best = value, epoch
        is_relative = self.min_delta_mode == "relative"
        if improvement.is_better(
            value,
            self._value_at_gain,
            self.direction,
            margin=self.min_delta,
            is_relative=is_relative,
        ):
            self._value_at_gain, self._epoch_of_gain = value, epoch
        self._last, self._last_epoch = value, epoch
        return self.decision

    @property
    def of(self) -> list[str]:
        """What its observations are of: metric, split and direction."""
        return [self.metric, self.split, self.direction]

    @property
    def is_best(self) -> bool:
        """Whether the epoch observed last is the best so far: by however little, and of equals the earliest."""
        return 0 < self._last_epoch == self.epoch_of_best

    @property
    def decision(self) -> Stop | None:
        """What follows from the epochs observed so far: nothing, or the end of the run."""
        if self._last is None:
            return None
        name, value = f"{self.split} {self.metric}", self._last
        if not math.isfinite(value):
            return Stop(f"{name} is {value}{self._best_in_words}")
        if self.divergence is not None and self._is_worse(value, self.divergence):
            return Stop(
                f"{name} is {value:.4g}, worse than divergence={self.divergence}{self._best_in_words}"
            )
        if self.goal is not None and not self._is_worse(value, self.goal):
            return Stop(f"{name} is {value:.4g}: goal={self.goal} is reached")
        epochs = self._last_epoch - self._epoch_of_gain
        if self.patience is not None and epochs >= self.patience:
            unit = "epoch" if epochs == 1 else "epochs"
            return Stop(
                f"{name} has not improved{self._margin_in_words} for {epochs} {unit}{self._best_in_words}"
            )
        return None

    def state_dict(self) -> dict[str, Any]:
        """What was observed, as plain JSON values; a last value that JSON has no number for as text."""
        last = self._last if self._last is None or math.isfinite(self._last) else str(self._last)
        return {
            "of": self.of,
            "best": self.best,
            "epoch_of_best": self.epoch_of_best,
            "value_at_gain": self._value_at_gain,
            "epoch_of_gain": self._epoch_of_gain,
            "last": last,
            "last_epoch": self._last_epoch,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave."""
        self.best, self.epoch_of_best = state["best"], state["epoch_of_best"]
        self._value_at_gain, self._epoch_of_gain = state["value_at_gain"], state["epoch_of_gain"]
        self._last = None if state["last"] is None else float(state["last"])
        self._last_epoch = state["last_epoch"]

    def _is_worse(self, value: float, limit: float) -> bool:
        return value > limit if self.direction == "lowest" else value < limit

    @property
    def _margin_in_words(self) -> str:
        if not self.min_delta:
            return ""
        return f" by {self.min_delta}" + (" of itself" if self.min_delta_mode == "relative" else "")

    @property
    def _best_in_words(self) -> str:
        return "" if self.best is None else f" (best {self.best:.4g} at epoch {self.epoch_of_best})"


def _check_choices(**choices: tuple[str, Sequence[str]]) -> None:
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise ValueError(
                f"{name}={value}: should be {' or '.join(allowed)}; choose one of these"
            )


def _check_numbers(patience: int | None, min_delta: float, mode: str) -> None:
    if patience is not None and patience < 1:
        raise ValueError(
            f"patience={patience}: should be 1 or more epochs, or null to wait for ever"
        )
    if not 0 <= min_delta < (1 if mode == "relative" else math.inf):
        allowed = "from 0 to below 1" if mode == "relative" else "a finite number from 0 up"
        raise ValueError(f"min_delta={min_delta}: should be {allowed}; 0 counts the smallest gain")


def _check_limits(direction: str, goal: float | None, divergence: float | None) -> None:
    for name, value in (("goal", goal), ("divergence", divergence)):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name}={value}: should be a finite number, or null for none")
    if goal is None or divergence is None:
        return
    if divergence <= goal if direction == "lowest" else divergence >= goal:
        better = "above" if direction == "lowest" else "below"
        raise ValueError(
            f"divergence={divergence}: should be {better} goal={goal}, for direction={direction}; swap the two"
        )

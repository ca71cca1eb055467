"""When a run has learnt what it will: a decision after every validation, as data.

>>> rule = EarlyStopping("loss", patience=1)
>>> rule.observe({"valid": {"loss": 0.5}}, epoch=1)
>>> rule.observe({"valid": {"loss": 0.6}}, epoch=2).reason
'valid loss has not improved for 1 validation (best 0.5 at epoch 1)'
"""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from andiron import errors, improvement
from andiron.learner.best_weights import BestWeights
from andiron.protocols import Values
from andiron.ranges import Count, Direction, Horizon, NonNegative, Number

BEST = "best_epoch"  # the name of the best weights in a checkpoint
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Stop:
    """The decision that the run ends here, and why."""

    reason: str


class EarlyStopping:
    """Ends a run for lack of progress, at a goal, or on divergence of `metric` on `split`.

    It stops after `patience` validations in a row without a gain, at `goal`, and past `divergence`.
    A gain is a value better by more than `min_delta` than at the last gain (`relative`: by that
    part of it). A goal is reached by a value as good or better; `divergence` is passed by a value
    that is worse. A non-finite value always ends the run. Before update `not_before` nothing else
    does, and validations do not count towards `patience`. With `restores_best` the run comes back
    with the weights of its best validation.
    Raises: ValueError for arguments that contradict each other or leave nothing to stop for.
    """

    def __init__(
        self,
        metric: str,
        split: str = "valid",
        *,
        direction: Direction | None = "lowest",
        patience: Count | None = None,
        min_delta: NonNegative = 0.0,
        min_delta_mode: Literal["absolute", "relative"] = "absolute",
        goal: Number | None = None,
        divergence: Number | None = None,
        not_before: Horizon | None = None,
        restores_best: bool = False,
    ):
        self.metric = metric
        self.split = split
        self.direction = direction or "lowest"
        self.patience = patience
        self.min_delta = min_delta
        self.min_delta_mode = min_delta_mode
        self.goal = goal
        self.divergence = divergence
        self.not_before: int = not_before or 0
        self.restores_best = restores_best
        self._check()
        self.best: float | None = None
        self.epoch_of_best = self.update_of_best = 0
        self.is_best = False  # the last validation: by however little, and the earliest of equals
        self._value_at_gain: float | None = None  # worse than `best` where smaller gains followed
        self._since_gain = 0  # validations
        self._last: float | None = None
        self._last_update = 0

    def observe(self, latest: Mapping[str, Values], epoch: int, updates: int = 0) -> Stop | None:
        """Decides after a validation in `epoch`, counted from 1, after `updates`.

        Raises: KeyError if the metric was not measured.
        """
        value = improvement.measured(latest, self.split, self.metric, waiting="early stopping")
        self.is_best = improvement.is_better(value, self.best, self.direction)
        if self.is_best:
            self.best, self.epoch_of_best, self.update_of_best = value, epoch, updates
        is_relative = self.min_delta_mode == "relative"
        if improvement.is_better(
            value,
            self._value_at_gain,
            self.direction,
            margin=self.min_delta,
            is_relative=is_relative,
        ):
            self._value_at_gain, self._since_gain = value, 0
        elif updates >= self.not_before:
            self._since_gain += 1
        self._last, self._last_update = value, updates
        return self.decision

    @property
    def observes(self) -> list[str]:
        """Metric, split and direction: a saved state of others is not continued."""
        return [self.metric, self.split, self.direction]

    @property
    def decision(self) -> Stop | None:
        """What follows from the validations so far: nothing, or the end of the run."""
        if self._last is None:
            return None
        name, value = f"{self.split} {self.metric}", self._last
        if not math.isfinite(value):
            return Stop(f"{name} is {value}{self._best_in_words}")
        if self._last_update < self.not_before:
            return None
        if self.divergence is not None and self._is_worse(value, self.divergence):
            limit = f"worse than divergence={self.divergence}"
            return Stop(f"{name} is {value:.4g}, {limit}{self._best_in_words}")
        if self.goal is not None and not self._is_worse(value, self.goal):
            return Stop(f"{name} is {value:.4g}: goal={self.goal} is reached")
        if self.patience is not None and self._since_gain >= self.patience:
            number = f"{self._since_gain} validation{'s' * (self._since_gain > 1)}"
            reason = f"{name} has not improved{self._margin_in_words} for {number}"
            return Stop(reason + self._best_in_words)
        return None

    def state_dict(self) -> dict[str, Any]:
        """What was observed, as plain JSON values; a non-finite last value as text."""
        last = self._last if self._last is None or math.isfinite(self._last) else str(self._last)
        return {
            "of": self.observes,
            "best": self.best,
            "epoch_of_best": self.epoch_of_best,
            "update_of_best": self.update_of_best,
            "is_best": self.is_best,
            "value_at_gain": self._value_at_gain,
            "since_gain": self._since_gain,
            "last": last,
            "last_update": self._last_update,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state_dict` gave."""
        self.best, self.epoch_of_best = state["best"], state["epoch_of_best"]
        self.update_of_best, self.is_best = state["update_of_best"], state["is_best"]
        self._value_at_gain, self._since_gain = state["value_at_gain"], state["since_gain"]
        self._last = None if state["last"] is None else float(state["last"])
        self._last_update = state["last_update"]

    def _is_worse(self, value: float, limit: float) -> bool:
        return value > limit if self.direction == "lowest" else value < limit

    @property
    def _margin_in_words(self) -> str:
        relative = " of itself" if self.min_delta_mode == "relative" else ""
        return f" by {self.min_delta}{relative}" if self.min_delta else ""

    @property
    def _best_in_words(self) -> str:
        if self.best is None:
            return ""
        update = f", update {self.update_of_best}" if self.update_of_best else ""
        return f" (best {self.best:.4g} at epoch {self.epoch_of_best}{update})"

    def _check(self) -> None:
        """Refuses a rule that never stops or stops at once, which types cannot express."""
        stops = self.patience, self.goal, self.divergence
        if not self.restores_best and stops == (None, None, None):
            raise ValueError(
                "nothing to stop for; give patience, goal, divergence or restores_best"
            )
        if self.direction not in improvement.DIRECTIONS:
            raise ValueError(f"direction={self.direction}: should be lowest or highest")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience={self.patience}: should be 1 or more validations, or null")
        largest = 1 if self.min_delta_mode == "relative" else math.inf
        if not 0 <= self.min_delta < largest:
            raise ValueError(f"min_delta={self.min_delta}: should be from 0 to below {largest}")
        if self.goal is None or self.divergence is None:
            return
        if self.divergence == self.goal or self._is_worse(self.goal, self.divergence):
            better = "above" if self.direction == "lowest" else "below"
            raise ValueError(
                f"divergence={self.divergence}: should be {better} goal={self.goal}, for "
                f"direction={self.direction}; swap the two"
            )


class StoppingRules:
    """Rules by name, observed after every validation; the first that decides so ends the run."""

    def __init__(self, rules: Mapping[str, EarlyStopping], model: nn.Module):
        self.rules = dict(rules)
        restoring = [name for name, rule in self.rules.items() if rule.restores_best]
        if len(restoring) > 1:
            options = ", ".join(f"early_stopping.{name}.restores_best" for name in restoring)
            why = "a run can come back with one set of weights; set it for one of these"
            raise errors.ConfigError([f"{options}: {why}"])
        self.best = BestWeights(model) if restoring else None

    @property
    def decision(self) -> Stop | None:
        """The end of the run, for the reasons of all rules that have one; or nothing."""
        stops = [rule.decision for rule in self.rules.values()]
        reasons = [stop.reason for stop in stops if stop]
        return Stop("; ".join(reasons)) if reasons else None

    def observe(
        self, latest: Mapping[str, Values], model: nn.Module, *, epoch: int, updates: int
    ) -> None:
        """Shows a validation to every rule, and keeps the weights if they are the best."""
        for rule in self.rules.values():
            rule.observe(latest, epoch, updates)
            if self.best is not None and rule.restores_best and rule.is_best:
                self.best.take(model)
        if self.decision:
            where = f"in epoch {epoch}, after update {updates}"
            log.info("stopped early %s: %s", where, self.decision.reason)

    @contextmanager
    def restored(self, model: nn.Module) -> Iterator[None]:
        """Swaps the best weights into `model` for a `with`, if a rule restores them."""
        if self.best is None or not self.best.is_taken:
            yield
            return
        with self.best.swapped_in(model):
            yield

    def state_dict(self) -> dict[str, Any]:
        """What every rule observed, as plain values."""
        return {name: rule.state_dict() for name, rule in self.rules.items()}

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """The best weights under their name in a checkpoint, if any were kept."""
        if self.best is None or not self.best.is_taken:
            return {}
        return {BEST: self.best.state_dict()}

    def load_state_dict(
        self, state: Mapping[str, Any], weights: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        """Continues from a saved state; a new rule, or one of another metric, begins now."""
        known = {
            name: rule
            for name, rule in self.rules.items()
            if name in state and state[name]["of"] == rule.observes
        }
        for name, rule in known.items():
            rule.load_state_dict(state[name])
        if self.best is not None:
            is_known = any(rule.restores_best for rule in known.values())
            self.best.load_state_dict(weights.get(BEST, {}) if is_known else {})

"""Early stopping: a decision after every validation, as the reason to stop.

>>> rule = EarlyStopping("loss", patience=1)
>>> rule.observe({"valid": {"loss": 0.5}}, epoch=1)
>>> rule.observe({"valid": {"loss": 0.6}}, epoch=2)
'valid loss has not improved for 1 validation (best 0.5 at epoch 1)'
"""

import copy
import dataclasses
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from andiron import errors
from andiron.optim import model_weights
from andiron.optim.own.averaging import WeightAverage
from andiron.plain import improvement
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Values
from andiron.ranges import Count, Direction, NonNegative, Number, Span

BEST = "best_epoch"  # the name of the best weights in a checkpoint
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Observed:
    """The state of a rule after the validations so far."""

    best: float | None = None
    epoch_of_best: int = 0
    update_of_best: int = 0
    is_best: bool = False  # the last validation, by any margin; ties go to the earlier
    value_at_gain: float | None = None  # worse than `best` where smaller gains followed
    since_gain: int = 0  # validations
    last: float | None = None
    last_update: int = 0


@dataclass
class EarlyStopping:
    """Ends a run for lack of progress, at a goal, or on divergence of `metric` on `split`.

    It stops after `patience` validations in a row without a gain, at `goal`, and past `divergence`.
    A gain is a value better by more than `min_delta` than at the last gain (`relative`: by that
    fraction of it). `goal` is reached by an equal or better value; `divergence` is passed by a
    worse one. A non-finite value always ends the run. Before update `not_before` nothing else
    does, and validations do not count towards `patience`. With `restores_best` the run ends with
    the weights of its best validation: the averaged ones, if `split` is measured with an average.
    Raises: ValueError for arguments that contradict each other or leave nothing to stop for.
    """

    metric: str
    split: str = "valid"
    direction: Direction | None = "lowest"
    patience: Count | None = None
    min_delta: NonNegative = 0.0
    min_delta_mode: Literal["absolute", "relative"] = "absolute"
    goal: Number | None = None
    divergence: Number | None = None
    not_before: Span | None = None
    restores_best: bool = False

    def __post_init__(self) -> None:
        self.forget()
        self._check()

    def forget(self) -> None:
        """Begins anew, for another run."""
        self.observed = Observed()

    def observe(self, latest: Mapping[str, Values], epoch: int, updates: int = 0) -> str | None:
        """The decision after a validation in `epoch`, counted from 1, after `updates`.

        Raises: KeyError if the metric was not measured.
        """
        value = improvement.measured(latest, self.split, self.metric, waiting="early stopping")
        seen, direction = self.observed, self.direction or "lowest"
        best, is_relative = (value, epoch, updates), self.min_delta_mode == "relative"
        is_best = improvement.is_better(value, seen.best, direction)
        is_gain = improvement.is_better(
            value, seen.value_at_gain, direction, margin=self.min_delta, is_relative=is_relative
        )
        since_gain = seen.since_gain + (updates >= (self.not_before or 0))
        self.observed = Observed(
            *(best if is_best else (seen.best, seen.epoch_of_best, seen.update_of_best)),
            is_best,
            *((value, 0) if is_gain else (seen.value_at_gain, since_gain)),
            value,
            updates,
        )
        return self.decision

    @property
    def observes(self) -> list[str]:
        """Metric, split and direction; saved state with different ones is not loaded."""
        return [self.metric, self.split, self.direction or "lowest"]

    @property
    def decision(self) -> str | None:
        """Why to end the run after the validations so far; None to continue."""
        seen = self.observed
        if seen.last is None:
            return None
        measured = f"{self.split} {self.metric} is {seen.last:.4g}"
        if not math.isfinite(seen.last):
            return f"{measured}{self._described_best}"
        if seen.last_update < (self.not_before or 0):
            return None
        if self.divergence is not None and self._is_worse(seen.last, self.divergence):
            limit = f"worse than divergence={self.divergence}"
            return f"{measured}, {limit}{self._described_best}"
        if self.goal is not None and not self._is_worse(seen.last, self.goal):
            return f"{measured}: goal={self.goal} is reached"
        if self.patience is not None and seen.since_gain >= self.patience:
            number = f"{seen.since_gain} validation{'s' * (seen.since_gain > 1)}"
            relative = " of itself" * (self.min_delta_mode == "relative")
            margin = f" by {self.min_delta}{relative}" if self.min_delta else ""
            missed = f"{self.split} {self.metric} has not improved{margin} for {number}"
            return missed + self._described_best
        return None

    def state_dict(self) -> Plain:
        """The observations as plain JSON values; a non-finite last value as text."""
        last = self.observed.last
        is_plain = last is None or math.isfinite(last)
        return {"of": self.observes, **vars(self.observed), "last": last if is_plain else str(last)}

    def load_state_dict(self, state: Named) -> None:
        """Continues from a saved state."""
        seen = {name: state[name] for name in vars(self.observed)}
        last = None if seen["last"] is None else float(seen["last"])
        self.observed = Observed(**seen | {"last": last})

    def _is_worse(self, value: float, limit: float) -> bool:
        return value < limit if self.direction == "highest" else value > limit

    @property
    def _described_best(self) -> str:
        seen = self.observed
        if seen.best is None:
            return ""
        update = f", update {seen.update_of_best}" if seen.update_of_best else ""
        return f" (best {seen.best:.4g} at epoch {seen.epoch_of_best}{update})"

    def _check(self) -> None:
        """Refuses a rule that never stops or stops at once."""
        stops = self.patience, self.goal, self.divergence
        if not self.restores_best and stops == (None, None, None):
            raise ValueError(
                "nothing to stop for; give patience, goal, divergence or restores_best"
            )
        if self.direction not in (None, *improvement.DIRECTIONS):
            raise ValueError(f"direction={self.direction}: should be lowest or highest")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience={self.patience}: should be 1 or more validations, or null")
        largest = 1 if self.min_delta_mode == "relative" else math.inf
        if not 0 <= self.min_delta < largest:
            raise ValueError(f"min_delta={self.min_delta}: should be from 0 to below {largest}")
        if self.goal is None or self.divergence is None:
            return
        if self.divergence == self.goal or self._is_worse(self.goal, self.divergence):
            better = "below" if self.direction == "highest" else "above"
            raise ValueError(
                f"divergence={self.divergence}: should be {better} goal={self.goal}, for "
                f"direction={self.direction}; swap the two"
            )


class StoppingRules:
    """Rules by name; after every validation each one may end the run."""

    def __init__(
        self,
        rules: Mapping[str, EarlyStopping],
        model: nn.Module,
        averages: Mapping[str, WeightAverage] | None = None,
    ):
        self.rules = dict(rules)
        for rule in self.rules.values():
            rule.forget()
        restoring = {name: rule for name, rule in self.rules.items() if rule.restores_best}
        if len(restoring) > 1:
            options = ", ".join(f"early_stopping.{name}.restores_best" for name in restoring)
            why = "a run can come back with one set of weights; set it for one of these"
            raise errors.ConfigError(f"{options}: {why}")
        self.restoring = next(iter(restoring.values()), None)  # the rule that restores weights
        self.best: dict[str, Tensor] = {}  # weights at its best validation
        self._model = model
        self._averages = averages or {}

    @property
    def decision(self) -> str | None:
        """The reasons of all rules that stop the run; None to continue."""
        decisions = (rule.decision for rule in self.rules.values())
        return "; ".join(filter(None, decisions)) or None

    @property
    def restored_epoch(self) -> int | None:
        """The epoch whose weights are restored; None if no rule restores any."""
        return self.restoring.observed.epoch_of_best if self.restoring and self.best else None

    @property
    def restored_average(self) -> str:
        """The average of the weights whose best values are restored; empty if none is."""
        return self._average_name if self.best else ""

    @property
    def _average_name(self) -> str:
        return self.restoring.split.partition("-")[2] if self.restoring else ""

    def observe(
        self,
        latest: Mapping[str, Values],
        *,
        epoch: int,
        updates: int,
        is_new: Callable[[str], bool] = lambda split: True,
    ) -> None:
        """Shows a validation to every rule whose split `is_new`; keeps the weights if the best."""
        for rule in self.rules.values():
            if not is_new(rule.split):
                continue
            rule.observe(latest, epoch, updates)
            if rule.restores_best and rule.observed.is_best:
                self._keep(self._measured_weights())
        if reason := self.decision:
            log.info("stopped early in epoch %d, after update %d: %s", epoch, updates, reason)

    def begin(self, value: float, epoch: int, updates: int) -> None:
        """Keeps the model's weights, which gave the best `value` before the rule restored any."""
        if rule := self.restoring:
            gain = rule.observed.value_at_gain
            rule.observed = dataclasses.replace(
                rule.observed, best=value, epoch_of_best=epoch, update_of_best=updates,
                value_at_gain=value if gain is None else gain,
            )  # fmt: skip
            self._keep(model_weights.entries(self._model))

    def _measured_weights(self) -> dict[str, Tensor]:
        """The weights that the restoring rule's split was measured with."""
        own = model_weights.entries(self._model)
        if self._average_name not in self._averages:
            return own
        averaged = self._averages[self._average_name].state_dict()
        return {key: tensor.to(own[key].dtype) for key, tensor in averaged.items()}

    def restored(self) -> ExitStack:
        """A context in which the model has its best weights, if a rule restores them."""
        return model_weights.swapped_in(self.best, self._model)

    def state_dict(self) -> Plain:
        """The observations of every rule, as plain values."""
        return {name: rule.state_dict() for name, rule in self.rules.items()}

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """The best weights under their name in a checkpoint, if any."""
        return {BEST: dict(self.best)} if self.best else {}

    def load_state_dict(
        self, state: Named, weights: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        """Continues from a saved state; a new rule, or one of another metric, starts fresh."""
        self.best = {}
        for name, rule in self.rules.items():
            if name in state and state[name]["of"] == rule.observes:
                rule.load_state_dict(state[name])
                if rule.restores_best and BEST in weights:
                    self._keep(weights[BEST])

    def _keep(self, weights: Mapping[str, Tensor]) -> None:
        """Copies weights by the names of `model.state_dict()`; later ones into the same memory."""
        own = model_weights.entries(self._model)
        if not self.best:  # a tensor with two names is kept once
            self.best = copy.deepcopy({name: tensor.detach() for name, tensor in own.items()})
        model_weights.copy(weights, self.best)

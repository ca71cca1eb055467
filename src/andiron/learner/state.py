"""The state of a learner as a checkpoint, and back: named parts, each with its own `state_dict`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, randomness, schedules
from andiron.cadence import Ticker
from andiron.checkpoint import Checkpoint
from andiron.learner.early_stopping import StoppingRules
from andiron.learner.metric_log import Measured, MetricLog
from andiron.learner.nonfinite import Nonfinite
from andiron.learner.update import Position
from andiron.optim import GroupedOptimizer
from andiron.optim.averaging import WeightAverage
from andiron.schedules import Schedule
from andiron.serialization import layouts, matching

FORMAT = 2  # 1: before states had named parts


@dataclass(frozen=True)
class LearnerState:
    """The parts of a learner that remember something."""

    model: nn.Module
    optimizer: GroupedOptimizer
    schedule: Schedule
    averages: Mapping[str, WeightAverage]
    early_stopping: StoppingRules
    metric_log: MetricLog
    nonfinite: Nonfinite
    position: Position
    validations: Ticker

    @property
    def _parts(self) -> dict[str, Any]:
        """The parts whose state is plain values and needs nothing else."""
        return {"nonfinite": self.nonfinite, "validation": self.validations}

    def capture(self, measured: Measured | None = None) -> Checkpoint:
        """The state after the last completed update; `model` has the weights to evaluate.

        Where an optimizer trains other weights than those, they are in its own state. `measured` is
        the state of the metric log from before a validation that was interrupted.
        """
        plain, windows = measured or self.metric_log.state_dict()
        optimizer = self.optimizer.state_dict()
        model = self.evaluation_weights()
        averages = {name: average.state_dict() for name, average in self.averages.items()}
        state = {
            "format": FORMAT,
            **self.position.state_dict(),
            "owners": self.optimizer.owners(),
            "frozen": self.optimizer.frozen,
            "schedules": [schedule.state_dict() for schedule in self._stateful_schedules()],
            "early_stopping": self.early_stopping.state_dict(),
            "averages": {name: average.count for name, average in self.averages.items()},
            "random": randomness.others(),
            "metric_log": plain,
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }
        weights = averages | self.early_stopping.weights()
        return Checkpoint(model, optimizer, state, weights, windows)

    def evaluation_weights(self, *, copies: bool = False) -> dict[str, Tensor]:
        """The weights to evaluate, by name; `copies` share no memory with the model."""
        with self.optimizer.evaluated():
            model = self.model.state_dict()
            if copies or self.optimizer.has_evaluation_weights:
                model = {name: tensor.clone() for name, tensor in model.items()}
        return model

    def restore(self, saved: Checkpoint) -> None:
        """Continues from a checkpoint of a learner that was built the same.

        Raises: OwnershipError if its optimizer state belongs to other groups; ValueError if other
        metrics were measured, or if its weights or averages are those of another model.
        """
        state = upgraded(saved.state)
        self._check(saved)
        self.optimizer.continue_from(state["owners"], state["frozen"], state["updates"])
        device = next((p.device for p in self.model.parameters()), torch.device("cpu"))
        self.metric_log.load_state_dict(state["metric_log"], saved.metrics, device)
        self.model.load_state_dict(saved.model)
        # after the model: it may train other weights
        self.optimizer.load_state_dict(saved.optimizer)
        for name, average in self.averages.items():
            average.load_state_dict(saved.averages[name], state["averages"][name])
        stateful, seen = list(self._stateful_schedules()), state["schedules"]
        if len(stateful) == len(seen):  # else others were chosen since; they begin now
            for schedule, each in zip(stateful, seen, strict=True):
                schedule.load_state_dict(each)
        self.early_stopping.load_state_dict(state["early_stopping"], saved.averages)
        randomness.put_others(state["random"])
        self.position.load_state_dict(state)
        for name, part in self._parts.items():
            if name in state["parts"]:
                part.load_state_dict(state["parts"][name])

    def observers(self) -> Iterator[Any]:
        """The schedules that observe validations, such as Plateau."""
        return (each for each in self._stateful_schedules() if hasattr(each, "observe"))

    def _stateful_schedules(self) -> Iterator[Any]:
        """The schedules that have a `state_dict`, including those of groups and users' own."""
        for whole in (self.schedule, *self.optimizer.schedules):
            yield from schedules.stateful(whole)

    def _check(self, saved: Checkpoint) -> None:
        """Refuses another model's state before anything is changed."""
        places = layouts.places(self.model, "torch")
        differences = matching.differences(places, saved.model)
        if differences:
            listed = matching.described(differences, places, saved.model)
            remedy = "build the model whose state it is"
            raise errors.MismatchError(f"the state does not fit the model:\n{listed}\n{remedy}")
        missing = ", ".join(name for name in self.averages if name not in saved.averages)
        if missing:
            there = ", ".join(saved.averages) or "none"
            remedy = f"the state has {there}; build the learner with those"
            raise errors.MismatchError(f"averages {missing} are not in the state: {remedy}")


def upgraded(state: dict[str, Any]) -> dict[str, Any]:
    """A state in the present format; format 1 counted epochs and had other names."""
    if state.get("format") == FORMAT:
        return state
    validated = state["updates"] if state["batch"] == 0 else -1
    return {
        **state,
        "metric_log": state["journal"],
        "early_stopping": {name: _rule(rule) for name, rule in state["stopping"].items()},
        "parts": {"nonfinite": state["guard"], "validation": {"last_update": validated}},
    }


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    """The state of an early stopping rule that counted epochs."""
    return {
        **rule,
        "update_of_best": 0,
        "is_best": 0 < rule["last_epoch"] == rule["epoch_of_best"],
        "since_gain": rule["last_epoch"] - rule["epoch_of_gain"],
        "last_update": 0,
    }

"""Saves and restores a learner's state: named parts, each with its own `state_dict`."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from andiron import errors, randomness
from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint
from andiron.learner.extras import state_format
from andiron.learner.extras.early_stopping import BEST, StoppingRules
from andiron.learner.extras.observers import Observers
from andiron.learner.metric_log import Measured, MetricLog
from andiron.learner.nonfinite import Nonfinite
from andiron.learner.position import Position
from andiron.optim import model_weights
from andiron.optim.foreign import slot_checks
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.own.averaging import WeightAverage
from andiron.plain.cadence import Ticker
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Loader
from andiron.schedules.schedule import Schedule, stateful
from andiron.serialization import layouts, matching, state_trees


@dataclass(frozen=True)
class LearnerState:
    """The stateful parts of a learner."""

    model: nn.Module
    optimizer: GroupedOptimizer
    schedule: Schedule
    averages: Mapping[str, WeightAverage]
    early_stopping: StoppingRules
    metric_log: MetricLog
    nonfinite: Nonfinite
    position: Position
    validations: Mapping[str, Ticker]  # by set, `valid` first
    observers: Observers | None = None

    def set_of(self, split: str) -> str:
        """The validation set that a split is measured with: night for night-ema, valid for train.
        """
        name = split.partition("-")[0]
        return name if name in self.validations else "valid"

    def is_measured(self, split: str, sets: Mapping[str, Loader]) -> bool:
        """Whether a pass over these sets has values for those who wait for a split."""
        begins_later = split == "train" or split.partition("-")[2] in self.averages
        is_before_values = begins_later and split not in self.metric_log.latest
        return self.set_of(split) in sets and not is_before_values

    def capture(self, measured: Measured | None = None) -> Checkpoint:
        """The state after the last completed update; `model` has the weights to evaluate.

        An optimizer that trains other weights has them in its own state. `measured` is the state of
        the metric log from before an interrupted validation.
        """
        logged, windows = measured or self.metric_log.state_dict()
        plain, tensors = self.user_states(logged["writers"])
        optimizer = self.optimizer.state_dict()
        model = self.evaluation_weights()
        averages = {name: average.state_dict() for name, average in self.averages.items()}
        sets = {name: ticker.state_dict() for name, ticker in self.validations.items()}
        state: Plain = {
            "format": state_format.FORMAT,
            **self.position.state_dict(),
            "owners": self.optimizer.owners(),
            "frozen": self.optimizer.frozen,
            "stateless": self.optimizer.without_state(optimizer),
            "schedules": [*plain["schedules"].values()],
            "early_stopping": self.early_stopping.state_dict(),
            "averages": {name: average.count for name, average in self.averages.items()},
            "random": randomness.global_generator_state(),
            "metric_log": {**logged, "writers": plain["writers"]},
            "parts": {"nonfinite": self.nonfinite.state_dict(), "validation": sets.pop("valid")},
        }
        if plain["observers"]:
            state["observers"] = plain["observers"]
        if sets:
            state["parts"]["sets"] = sets
        if self.optimizer.frozen:
            state["waiting"] = sorted(self.optimizer.waiting)
        weights = averages | self.early_stopping.weights()
        named = self.model.named_parameters(remove_duplicate=False)
        frozen = frozenset(name for name, tensor in named if not tensor.requires_grad)
        return Checkpoint(model, optimizer, state, weights, windows | tensors, None, frozen)

    def user_states(
        self, positions: Mapping[str, object] | None = None
    ) -> tuple[dict[str, Plain], dict[str, Tensor]]:
        """The states of schedules, writers and observers as plain values, and the tensors in them.

        Raises: ConfigError for a state that no checkpoint can hold.
        """
        schedules = enumerate(self.stateful_schedules())
        named = {f"{number} {type(s).__name__}": s.state_dict() for number, s in schedules}
        positions = self.metric_log.writers.positions() if positions is None else positions
        observers = self.observers.state_dict() if self.observers else {}
        return state_trees.encoded_parts(
            {"schedules": named, "writers": positions, "observers": observers}
        )

    def copies(self) -> Checkpoint:
        """The state as `capture` gives it, sharing no memory with the parts."""
        return copy.deepcopy(self.capture())

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
        metrics were measured, or if weights or averages are another model's; DataError for
        values that this learner cannot have written.
        """
        state = state_format.checked(saved.state, saved.place(contents.STATE))
        state = state_trees.decoded_parts(state, saved.metrics, saved.place(contents.STATE))
        self._check(saved, state)
        self.optimizer.continue_from(state)
        windows = {n: t for n, t in saved.metrics.items() if not n.startswith(state_trees.PREFIX)}
        self.metric_log.load_state_dict(state["metric_log"], windows)
        self.model.load_state_dict(saved.model)
        for name in saved.frozen & self.optimizer.parameters.keys():  # the user's own code did
            self.optimizer.parameters[name].requires_grad_(False)
        # after the model: it may train other weights
        self.optimizer.load_state_dict(saved.optimizer)
        for name, average in self.averages.items():
            average.load_state_dict(saved.averages[name], state["averages"][name])
        schedules = [*self.stateful_schedules()]
        is_own = len(schedules) == len(state["schedules"])  # else they changed, and start fresh
        pairs = zip(schedules, state["schedules"]) if is_own else ()
        for number, (schedule, own_state) in enumerate(pairs):
            with _blamed(saved.place(contents.STATE), f"schedules[{number}]"):
                schedule.load_state_dict(own_state)
        self.early_stopping.load_state_dict(state["early_stopping"], saved.averages)
        with _blamed(saved.place(contents.STATE), "random"):
            randomness.restore_global_generators(state["random"])
        self.position.load_state_dict(state)
        if self.observers:
            self.observers.load_state_dict(state.get("observers", {}))
        parts = state["parts"]
        self.nonfinite.load_state_dict(parts["nonfinite"])
        sets = {**parts.get("sets", {}), "valid": parts["validation"]}
        for name, ticker in self.validations.items():
            ticker.load_state_dict(sets.get(name, {"last_update": -1}))

    def observe(self, sets: Mapping[str, Loader]) -> None:
        """Passes the values of these sets to their early stopping rules."""
        at, rules = self.position, self.early_stopping
        if sets and rules.rules:
            with self.optimizer.evaluated():
                rules.observe(
                    self.metric_log.latest,
                    epoch=at.epoch + (at.batch > 0),
                    updates=at.updates,
                    is_new=lambda split: self.is_measured(split, sets),
                )

    def observing_schedules(self) -> Iterator[Any]:
        """The schedules that observe validations, such as Plateau."""
        return (s for s in self.stateful_schedules() if hasattr(s, "observe"))

    def start(self, num_updates: int, updates_per_epoch: int) -> None:
        """Begins the training of a run of this length: each part prepares for it.

        Raises: ValueError if an optimizer is constructed with a rate whose peak is unknown.
        """
        if not self.model.training:  # submodules frozen in evaluation mode stay so
            self.model.train()
        for average in self.averages.values() if not self.position.updates else ():
            average.begin(self.model)
        if self.observers:
            self.observers.start(updates_per_epoch)
        for schedule in self.stateful_schedules():
            if hasattr(schedule, "start"):  # a torch scheduler that steps after each epoch
                schedule.start(self.position)
        self.optimizer.expect(self.schedule, num_updates)

    def stateful_schedules(self) -> Iterator[Any]:
        """The schedules that have a `state_dict`, including groups' and users'."""
        for whole in (self.schedule, *self.optimizer.schedules):
            yield from stateful(whole)

    def _check(self, saved: Checkpoint, state: Named) -> None:
        """Refuses the state of another learner before anything is changed."""
        self.check_model(saved)
        missing = ", ".join(name for name in self.averages if name not in saved.averages)
        if missing:
            there = ", ".join(saved.averages) or "none"
            remedy = f"the state has {there}; build the learner with those"
            raise errors.MismatchError(f"averages {missing} are not in the state: {remedy}")
        if not self.optimizer.misfits(state["owners"]):  # else `continue_from` says what differs
            problems = slot_checks.problems(self.optimizer, saved.optimizer, state)
            _refuse(saved.place(contents.OPTIMIZER), problems)
        expected: dict[str, Mapping[str, Tensor]] = {}
        if self.early_stopping.restoring:
            expected[BEST] = model_weights.entries(self.model)
        expected |= {name: average.state_dict() for name, average in self.averages.items()}
        for name, weights in saved.averages.items():
            if name in expected:
                file = saved.place(contents.AVERAGE.format(name))
                _refuse(file, model_weights.differences(weights, expected[name]))
        absent = [name for name in self.averages if name not in state["averages"]]
        lines = (f"averages: {name!r} is missing" for name in absent)
        _refuse(saved.place(contents.STATE), lines)

    def check_model(self, saved: Checkpoint) -> None:
        """Refuses weights of another model.

        Raises: MismatchError or DataError.
        """
        places = layouts.places(self.model, "torch")
        differences = matching.differences(places, saved.model)
        if differences:
            listed = matching.described(differences, places, saved.model)
            remedy = (
                "build the model whose state it is, or start another run from the weights that "
                "fit: start_from={path: <run folder>, partial: true}"
            )
            raise errors.MismatchError(f"the state does not fit the model:\n{listed}\n{remedy}")
        own = {name: place.own for name, place in places.items()}
        _refuse(saved.place(contents.MODEL), model_weights.differences(saved.model, own))


@contextmanager
def _blamed(file: str, where: str) -> Iterator[None]:
    """A context that blames errors on a value in the file. Raises: DataError."""
    try:
        yield
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        _refuse(file, [f"{where}: {errors.one_line(error)}"])


def _refuse(file: str, problems: Iterable[str]) -> None:
    """Raises: DataError with all problems of a file."""
    listed = "; ".join(problems)
    if listed:
        raise errors.DataError(f"{file}: {listed}; use another checkpoint")

"""Constructs a Learner from the choices of a LearnerBuilder, after checking that they fit."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from andiron import errors
from andiron.checkpoint.store import Checkpointer
from andiron.checkpoint.strategies import Strategy, keeping_best
from andiron.data.splitting.splits import Splits
from andiron.distributed import ALONE, World
from andiron.interrupter import Interrupter
from andiron.learner.extras.early_stopping import EarlyStopping, StoppingRules
from andiron.learner.extras.group_statistics import histogram_names
from andiron.learner.extras.observers import Observer, Observers
from andiron.learner.learner import Learner
from andiron.learner.metric_log import Answers, Interactive, MetricLog
from andiron.learner.nonfinite import Nonfinite
from andiron.learner.precision import Precision
from andiron.learner.position import Position
from andiron.learner.run_host import RunHost
from andiron.learner.state import LearnerState
from andiron.learner.update import Updater
from andiron.metrics import direction
from andiron.optim import transformations
from andiron.optim.foreign import torch_optimizer
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.optimizer import Optimizer
from andiron.optim.own.averaging import Rule, WeightAverage
from andiron.options import LearnerOptions
from andiron.plain import wings
from andiron.plain.cadence import Cadence, Ticker
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Metric, Renderer, Writer
from andiron.run_folder import RunFolder
from andiron.schedules.schedule import Schedule, stateful
from andiron.writers.fanout import Writers

log = logging.getLogger("andiron")
# the place of the run of a learner's state, and of its checkpoints
HostOf = Callable[[LearnerState, Checkpointer | None], RunHost | None]


@dataclass(frozen=True)
class Choices:
    """The options and components of a learner, as collected by its builder."""

    folder: RunFolder
    options: LearnerOptions
    default_writers: Callable[[RunFolder], Mapping[str, Writer]]
    answers: Callable[[], Answers]  # counts those on the test set
    overwrite: bool = False
    resume: bool = False
    resume_allow: Sequence[str] = ()
    host: HostOf | None = None  # None: the folder, which is claimed while it trains
    train_metrics: tuple[Metric, ...] = ()
    valid_metrics: tuple[Metric, ...] = ()
    sets: Named = field(default_factory=dict)  # cadences of further validation sets
    writers: Mapping[str, Writer] | None = None  # None: `default_writers`
    renderer: Renderer | None = None  # None: no output
    strategy: Strategy | None = None
    checkpointer: Callable[[World], Checkpointer] | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    transforms: tuple[transformations.Transformation, ...] = ()
    averages: Mapping[str, Rule] = field(default_factory=dict)
    early_stopping: Mapping[str, EarlyStopping] = field(default_factory=dict)
    observers: Mapping[str, Observer] = field(default_factory=dict)
    interrupter: Interrupter | None = None
    world: World = ALONE
    data: Splits | None = None  # for the record
    is_recorded: bool = True

    @property
    def cadences(self) -> Plain:
        """How often each validation set is measured."""
        usual = self.options.validate_every
        return {"valid": usual} | {name: every or usual for name, every in self.sets.items()}


def construct(
    chosen: Choices,
    model: nn.Module,
    optimizer: Optimizer | GroupedOptimizer | torch.optim.Optimizer,
    lr: float | Schedule | LRScheduler | None,
    host: HostOf,
) -> Learner:
    """The learner of `chosen`, with its model moved to the device, in the `host` of its run.

    Raises: TypeError if the model lacks a step, or the optimizer a rate; ConfigError if choices do
    not fit together.
    """
    _check_model(model)
    model = model.to(chosen.device)
    optimizer, schedule = torch_optimizer.adapted(optimizer, lr, model)
    if chosen.world.sharding:
        chosen.world.sharding.check(optimizer)
    _check_checkpoints(chosen)
    _check_metrics(chosen, optimizer, schedule)
    state = _state(chosen, model, optimizer, schedule)
    _check_validations(chosen, state)
    checkpointer = chosen.checkpointer and chosen.checkpointer(chosen.world)
    return Learner(
        _updater(chosen, state),
        state,
        chosen.options,
        checkpointer=checkpointer,
        interrupter=_connected_interrupter(chosen),
        host=host(state, checkpointer),
    )


def _state(
    chosen: Choices, model: nn.Module, optimizer: GroupedOptimizer, schedule: Schedule
) -> LearnerState:
    policy, world = chosen.options.on_nonfinite, chosen.world
    replayed = chosen.folder.nonfinite if world.size == 1 else None  # by one process
    precision = Precision(chosen.options.precision, chosen.device)
    is_configured = chosen.host is not None
    nonfinite = Nonfinite(policy, precision, replayed, world=world, is_configured=is_configured)
    averages = {name: WeightAverage(rule, model) for name, rule in chosen.averages.items()}
    return LearnerState(
        model,
        optimizer,
        schedule,
        averages,
        StoppingRules(chosen.early_stopping, model, averages),
        _metric_log(chosen),
        nonfinite,
        Position(chosen.options.seed),
        {n: Ticker(Cadence.of(every), world.clock) for n, every in chosen.cadences.items()},
        Observers(chosen.observers, world.clock) if chosen.observers else None,
    )


def _updater(chosen: Choices, state: LearnerState) -> Updater:
    options = chosen.options
    clip = [] if options.clip is None else [transformations.from_clip(options.clip)]
    return Updater(
        state.model,
        state.optimizer,
        state.schedule,
        state.nonfinite.precision,
        state.nonfinite,
        transformations.chained([*chosen.transforms, *clip], options.seed),
        options.sam,
        histogram_names(options.histograms, dict(state.model.named_parameters())),
        chosen.world,
        [*state.averages.values()],
        may_read_late=bool(options.graph),
        **_graphed_steps(chosen, state),
    )


def _graphed_steps(chosen: Choices, state: LearnerState) -> Plain:
    """The parts of an update that are graphs of the device, by the updater's fields; or none."""
    if not chosen.options.graph or (graphs := _of_lab("graphs.graphed_update", "graph")) is None:
        return {}
    made: Plain = graphs.steps_for(chosen, state)
    return made


def _of_lab(name: str, option: str) -> Any:
    """The module of the lab that an option needs; None, with a warning, without the lab."""
    if (module := wings.optional(f"{wings.LAB}.{name}")) is None:
        log.warning("%s", wings.missing_lab(option))
    return module


def _check_model(model: nn.Module) -> None:
    """Refuses a model without steps, or with a state that no checkpoint can hold.

    Raises: TypeError or ConfigError.
    """
    # without __getattr__, by which a task of torch.compile has the steps that are not compiled
    if None in [inspect.getattr_static(model, name, None) for name in ("train_step", "valid_step")]:
        remedy = "wrap it in a task, such as Classifier(network)"
        if type(model).__name__ == "OptimizedModule":
            remedy = "compile the network in the task, by network.compile()"
        raise TypeError(f"{type(model).__name__} has no train_step and valid_step; {remedy}")
    problems = [
        f"model: its state {name} is a {type(value).__name__}, and a checkpoint holds tensors; "
        "return one from get_extra_state"
        for name, value in model.state_dict().items()
        if not isinstance(value, torch.Tensor)
    ]
    if problems:
        raise errors.ConfigError(problems)


def _check_checkpoints(chosen: Choices) -> None:
    """Refuses to resume or test a checkpoint that is not there, or is replaced.

    Raises: ConfigError.
    """
    tests_best, resume = chosen.options.test_weights == "best", chosen.resume
    contradictions = {
        "overwrite=True: would remove the run that resume=True continues; give one": (
            resume and chosen.overwrite
        ),
        "resume=True: needs checkpoints; add with_file_checkpointer()": (
            resume and chosen.checkpointer is None
        ),
        "test_weights=best: no checkpoint keeps the best weights; give "
        "checkpoint=last_and_best, or a checkpoint.metric that chooses them": (
            tests_best and not keeping_best(chosen.strategy)
        ),
    }
    if problems := [problem for problem, applies in contradictions.items() if applies]:
        raise errors.ConfigError(problems)


def _connected_interrupter(chosen: Choices) -> Interrupter:
    """The interrupter, connected to a renderer that has keys."""
    interrupter = chosen.interrupter or Interrupter()
    if isinstance(chosen.renderer, Interactive):
        directions = direction.directions_of([*chosen.train_metrics, *chosen.valid_metrics])
        chosen.renderer.connect(interrupter, directions)
    return interrupter


def _metric_log(chosen: Choices) -> MetricLog:
    default, trace = partial(chosen.default_writers, chosen.folder), None
    if (profile := chosen.options.profile) and (views := _of_lab("views.update_trace", "profile")):
        trace = views.UpdateTrace(chosen.folder.profile, *profile["updates"], chosen.device)
    return MetricLog(
        train_metrics=chosen.train_metrics,
        valid_metrics=chosen.valid_metrics,
        writers=Writers(default if chosen.writers is None else chosen.writers),
        renderer=chosen.renderer,
        stops_at_nonfinite=chosen.options.on_nonfinite == "stop",
        device=chosen.device,
        trace=trace,
        answers=chosen.answers(),
        world=chosen.world,
    )


def _check_metrics(chosen: Choices, optimizer: GroupedOptimizer, whole: Schedule) -> None:
    """Refuses early stopping, schedules and strategies that need an unmeasured metric.

    Raises: ConfigError listing all.
    """
    waiting: Plain = {f"early_stopping.{n}": r for n, r in chosen.early_stopping.items()}
    for number, rule in enumerate(keeping_best(chosen.strategy)):
        waiting[f"checkpoint.also_best.{rule.metric}" if number else "checkpoint"] = rule
    own = {f"param_groups.{n}.schedule": g.schedule for n, g in optimizer.groups.items()}
    for option, schedule in {"scheduler": whole, **own}.items():
        inner = stateful(schedule) if schedule else []
        plateaus = [s for s in inner if hasattr(s, "observe") and hasattr(s, "metric")]
        waiting.update((option, plateau) for plateau in plateaus)
    direction.check_measured(
        {name: (rule.metric, rule.split, rule.direction) for name, rule in waiting.items()},
        direction.by_split(
            chosen.train_metrics, chosen.valid_metrics, chosen.cadences, chosen.averages
        ),
    )


def _check_validations(chosen: Choices, state: LearnerState) -> None:
    """Refuses validations by the clock if they affect training: no rerun would be the same.

    Raises: ConfigError.
    """
    observing = [(type(schedule).__name__, schedule) for schedule in state.observing_schedules()]
    deciding = [
        (name, state.set_of(getattr(rule, "split", "valid")))
        for name, rule in [*chosen.early_stopping.items(), *observing]
    ]
    for name, every in chosen.cadences.items():
        decides = [decider for decider, of_set in deciding if of_set == name]
        if state.validations[name].cadence.minutes is not None and decides:
            option = "validate_every" if name == "valid" else f"valid_sets_every.{name}"
            why = f"{', '.join(decides)} would depend on the machine's speed"
            raise errors.ConfigError(f"{option}={every}: {why}; give updates or epochs")

"""LearnerBuilder: builds a Learner step by step, like Burn's."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from andiron import errors, schedules
from andiron.checkpoint import Checkpointer, FileCheckpointer, LocalStore, Store, last_and_best
from andiron.checkpoint.silent import SilentCheckpointer
from andiron.checkpoint.strategies import Strategy, keeping_best
from andiron.distributed import ALONE, World
from andiron.interrupter import Interrupter
from andiron.learner.early_stopping import EarlyStopping, StoppingRules
from andiron.learner.group_statistics import histogram_names
from andiron.learner.learner import Learner
from andiron.learner.metric_log import MetricLog
from andiron.learner.nonfinite import Nonfinite
from andiron.learner.precision import Precision
from andiron.learner.state import LearnerState
from andiron.learner.update import Position, Updater
from andiron.learner.update_trace import UpdateTrace
from andiron.metrics import direction
from andiron.optim import GroupedOptimizer, Optimizer, transformations
from andiron.optim.averaging import Rule, WeightAverage
from andiron.optim.transformations import Transformation
from andiron.plain.cadence import Cadence, Ticker
from andiron.plain.options import LearnerOptions
from andiron.protocols import Metric, Renderer, TrainStep, ValidStep, Writer
from andiron.render.interactive import Interactive
from andiron.run_folder import RunFolder
from andiron.schedules import Schedule
from andiron.writers import JsonLinesWriter, TensorBoardWriter, Writers

DEFAULT_STRATEGY = last_and_best(last=2, metric="loss", split="valid", direction="lowest")
OPTIONS = [field.name for field in dataclasses.fields(LearnerOptions)]


class LearnerBuilder:
    """Collects the components of a Learner; `build` checks that they fit together.

    Every field of `LearnerOptions` is also a method: `.num_epochs(3).clip(1.0)` sets two of them.
    Without `with_writers`, values go to `run_dir`/metrics.jsonl and `run_dir`/tensorboard.
    """

    def __init__(self, run_dir: Path | str):
        self._folder = RunFolder(Path(run_dir))
        self._options = LearnerOptions()
        self._train_metrics: list[Metric] = []
        self._valid_metrics: list[Metric] = []
        self._writers: dict[str, Writer] | None = None
        self._renderer: Renderer | None = None
        self._strategy: Strategy | None = None
        self._checkpointer: Callable[[], Checkpointer] | None = None
        self._device = torch.device("cpu")
        self._transforms: list[Transformation] = []
        self._averages: dict[str, Rule] = {}
        self._early_stopping: dict[str, EarlyStopping] = {}
        self._interrupter: Interrupter | None = None
        self._world = ALONE

    def __getattr__(self, name: str) -> Callable[..., "LearnerBuilder"]:
        if name not in OPTIONS:
            hint = errors.nearest(name, OPTIONS)
            raise AttributeError(f"LearnerBuilder has no {name!r}{hint}")
        return lambda value=True: self.options(dataclasses.replace(self._options, **{name: value}))

    def options(self, options: LearnerOptions) -> "LearnerBuilder":
        """Sets all options at once."""
        self._options = options
        return self

    def metric_train_numeric(self, *metrics: Metric) -> "LearnerBuilder":
        """Adds metrics of the training data."""
        self._train_metrics += metrics
        return self

    def metric_valid_numeric(self, *metrics: Metric) -> "LearnerBuilder":
        """Adds metrics of the validation data, and of the test data at the end."""
        self._valid_metrics += metrics
        return self

    def with_file_checkpointer(
        self,
        strategy: Strategy = DEFAULT_STRATEGY,
        cadence: Cadence | None = None,
        store: Callable[[Path], Store] = LocalStore,
        run: str | None = None,
    ) -> "LearnerBuilder":
        """Saves checkpoints in `run_dir`/checkpoints, by default after each epoch.

        The default strategy keeps the last two and the best. `run` is the identity recorded in the
        checkpoints; resuming ignores checkpoints of another run.
        """
        self._strategy = strategy
        every = cadence or Cadence(epochs=1)

        def checkpointer() -> Checkpointer:
            checkpoints = store(self._folder.checkpoints)
            kind = FileCheckpointer if self._world.rank == 0 else SilentCheckpointer
            return kind(checkpoints, strategy, every, run)

        self._checkpointer = checkpointer
        return self

    def with_writers(self, *writers: Writer, **named: Writer) -> "LearnerBuilder":
        """Sets the writers of logged values; unnamed ones are named by class and position."""
        numbered = {f"{type(w).__name__}-{number}": w for number, w in enumerate(writers)}
        self._writers = numbered | named
        return self

    def renderer(self, renderer: Renderer) -> "LearnerBuilder":
        """Sets the renderer that shows progress."""
        self._renderer = renderer
        return self

    def devices(self, devices: Sequence[torch.device | str]) -> "LearnerBuilder":
        """Sets the device to train on.

        Raises: DeviceError unless there is exactly one.
        """
        if len(devices) != 1:
            why = "a learner trains on one device; name one"
            raise errors.DeviceError(f"devices={list(devices)}: {why}")
        self._device = torch.device(devices[0])
        return self

    def gradient_transforms(self, *transforms: Transformation) -> "LearnerBuilder":
        """Adds transformations of the mean gradients of every update, applied before `clip`."""
        self._transforms += transforms
        return self

    def averages(self, **rules: Rule) -> "LearnerBuilder":
        """Adds averages of the weights by name; validation also measures the model with them."""
        self._averages |= rules
        return self

    def early_stopping(self, **rules: EarlyStopping) -> "LearnerBuilder":
        """Adds early stopping rules; the run stops when one of them applies."""
        self._early_stopping |= rules
        return self

    def interrupter(self, interrupter: Interrupter) -> "LearnerBuilder":
        """Sets the interrupter, whose `stop` ends the run after an update, with its state saved."""
        self._interrupter = interrupter
        return self

    def world(self, world: World) -> "LearnerBuilder":
        """Sets which process this is of several that train the run; only rank 0 saves."""
        self._world = world
        return self

    def build(
        self, model: nn.Module, optimizer: Optimizer | GroupedOptimizer, lr: float | Schedule
    ) -> Learner:
        """The learner, with its model moved to the device; a single optimizer owns all parameters.

        Raises: TypeError if the model lacks a step; ConfigError if a checkpoint strategy or early
        stopping needs a metric that is not measured.
        """
        if not isinstance(model, TrainStep) or not isinstance(model, ValidStep):
            remedy = "wrap it in a task, such as Classifier(network)"
            raise TypeError(f"{type(model).__name__} has no train_step and valid_step; {remedy}")
        options, model = self._options, model.to(self._device)
        if not isinstance(optimizer, GroupedOptimizer):
            optimizer = GroupedOptimizer.of(optimizer, model)
        schedule = schedules.from_value(lr)
        self._check_metrics(optimizer, schedule)
        self._check_tested_weights()
        precision = Precision(options.precision, self._device)
        nonfinite = self._nonfinite(precision)
        state = LearnerState(
            model,
            optimizer,
            schedule,
            {name: WeightAverage(rule, model) for name, rule in self._averages.items()},
            StoppingRules(self._early_stopping, model),
            self._metric_log(nonfinite),
            nonfinite,
            Position(options.seed),
            Ticker(Cadence.of(options.validate_every), self._world.clock),
        )
        self._check_validations(state)
        transforms = list(self._transforms)
        if options.clip is not None:
            transforms.append(transformations.from_clip(options.clip))
        updater = Updater(
            model,
            optimizer,
            schedule,
            precision,
            nonfinite,
            transformations.chained(transforms, options.seed),
            options.sam,
            histogram_names(options.histograms, dict(model.named_parameters())),
            self._world,
        )
        checkpointer = self._checkpointer and self._checkpointer()
        asked = self._connected_interrupter()
        return Learner(updater, state, options, checkpointer=checkpointer, interrupter=asked)

    def _nonfinite(self, precision: Precision) -> Nonfinite:
        """The policy; a step of several processes is not saved: one process cannot replay it."""
        folder = self._folder.nonfinite if self._world.size == 1 else None
        return Nonfinite(self._options.on_nonfinite, precision, folder, world=self._world)

    def _connected_interrupter(self) -> Interrupter:
        """The interrupter, connected to a renderer that has keys."""
        interrupter = self._interrupter or Interrupter()
        if isinstance(self._renderer, Interactive):
            self._renderer.connect(interrupter, direction.directions_of(self._valid_metrics))
        return interrupter

    def _metric_log(self, nonfinite: Nonfinite) -> MetricLog:
        return MetricLog(
            train_metrics=self._train_metrics,
            valid_metrics=self._valid_metrics,
            writers=Writers(self._default_writers() if self._writers is None else self._writers),
            renderer=self._renderer,
            check_loss=nonfinite.check_loss,
            device=self._device,
            trace=self._trace(),
            world=self._world,
        )

    def _trace(self) -> UpdateTrace | None:
        if self._options.profile is None:
            return None
        first, last = self._options.profile["updates"]
        return UpdateTrace(self._folder.profile, first, last, self._device)

    def _check_metrics(self, optimizer: GroupedOptimizer, whole: Schedule) -> None:
        """Refuses early stopping, schedules and strategies that need an unmeasured metric.

        Raises: ConfigError listing all.
        """
        waiting: dict[str, Any] = {
            f"early_stopping.{name}": rule for name, rule in self._early_stopping.items()
        }
        for number, rule in enumerate(keeping_best(self._strategy)):
            waiting[f"checkpoint.also_best.{rule.metric}" if number else "checkpoint"] = rule
        groups = optimizer.groups.items()
        own = {f"param_groups.{name}.schedule": each.schedule for name, each in groups}
        for option, schedule in {"scheduler": whole, **own}.items():
            stateful = schedules.stateful(schedule) if schedule else []
            plateaus = [each for each in stateful if hasattr(each, "observe")]
            waiting.update((option, each) for each in plateaus if hasattr(each, "metric"))
        splits = ["valid", *(f"valid-{name}" for name in self._averages)]
        measured = {"train": self._train_metrics} | dict.fromkeys(splits, self._valid_metrics)
        direction.check_measured(
            {name: (each.metric, each.split, each.direction) for name, each in waiting.items()},
            measured,
        )

    def _check_tested_weights(self) -> None:
        """Refuses `test_weights=best` without a strategy that keeps the best checkpoint.

        Raises: ConfigError.
        """
        if self._options.test_weights == "best" and not keeping_best(self._strategy):
            why = "no checkpoint keeps the best weights; give checkpoint=last_and_best, or a "
            remedy = "checkpoint.metric that chooses them"
            raise errors.ConfigError([f"test_weights=best: {why}{remedy}"])

    def _check_validations(self, state: LearnerState) -> None:
        """Refuses validations by the clock if they affect training: no rerun would be the same.

        Raises: ConfigError.
        """
        decides = [*self._early_stopping, *(type(each).__name__ for each in state.observers())]
        if state.validations.cadence.minutes is not None and decides:
            every = self._options.validate_every
            why = f"{', '.join(decides)} would depend on the machine's speed"
            raise errors.ConfigError([f"validate_every={every}: {why}; give updates or epochs"])

    def _default_writers(self) -> dict[str, Writer]:
        self._folder.path.mkdir(parents=True, exist_ok=True)
        return {
            "json_lines": JsonLinesWriter(self._folder.metrics),
            "tensorboard": TensorBoardWriter(self._folder.tensorboard),
        }

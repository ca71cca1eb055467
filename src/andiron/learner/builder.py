"""LearnerBuilder: a learner put together by name, in Burn's manner."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from andiron import errors, schedules
from andiron.checkpoint import Cadence, FileCheckpointer, last_and_best
from andiron.checkpoint.strategies import KeepBest, Strategy
from andiron.interrupter import Interrupter
from andiron.learner import nonfinite, precision, state, stopping
from andiron.learner.early_stopping import EarlyStopping
from andiron.learner.metric_log import Journal
from andiron.learner.learner import Learner
from andiron.metrics import direction
from andiron.optim import GroupedOptimizer, Optimizer, clipping
from andiron.optim.averaging import Rule, WeightAverage
from andiron.protocols import Metric, Renderer, Statistic, TrainStep, ValidStep, Writer
from andiron.schedules import Schedule
from andiron.writers import JsonLinesWriter, TensorBoardWriter

DEFAULT_STRATEGY = last_and_best(last=2, metric="loss", split="valid", direction="lowest")


class LearnerBuilder:
    """Collects a learner's parts; `build` checks that they fit.

    Without `with_writers`, values go to `run_dir`/metrics.jsonl and `run_dir`/tensorboard.
    """

    def __init__(self, run_dir: Path | str):
        self.run_dir = Path(run_dir)
        self._train_metrics: list[Metric | Statistic] = []
        self._valid_metrics: list[Metric | Statistic] = []
        self._writers: Sequence[Writer] | None = None
        self._renderer: Renderer | None = None
        self._strategy: Strategy | None = None
        self._cadence = Cadence()
        self._device = torch.device("cpu")
        self._precision: precision.Name = "fp32"
        self._on_nonfinite: nonfinite.Policy = "stop"
        self._averages: dict[str, Rule] = {}
        self._early_stopping: dict[str, EarlyStopping] = {}
        self._options: dict[str, Any] = {}

    def metric_train_numeric(self, *metrics: Metric | Statistic) -> "LearnerBuilder":
        """Measures these on the training data."""
        self._train_metrics += metrics
        return self

    def metric_valid_numeric(self, *metrics: Metric | Statistic) -> "LearnerBuilder":
        """Measures these on the validation data, and on the test data at the end."""
        self._valid_metrics += metrics
        return self

    def with_file_checkpointer(
        self, strategy: Strategy = DEFAULT_STRATEGY, cadence: Cadence | None = None
    ) -> "LearnerBuilder":
        """Saves checkpoints in `run_dir`/checkpoints; by default after each epoch, and the last two and the best stay."""
        self._strategy, self._cadence = strategy, cadence or Cadence()
        return self

    def with_writers(self, *writers: Writer) -> "LearnerBuilder":
        """Sends every logged value to these."""
        self._writers = writers
        return self

    def renderer(self, renderer: Renderer) -> "LearnerBuilder":
        """Shows progress with this."""
        self._renderer = renderer
        return self

    def devices(self, devices: Sequence[torch.device | str]) -> "LearnerBuilder":
        """Trains on this device.

        Raises: DeviceError unless there is exactly one.
        """
        if len(devices) != 1:
            raise errors.DeviceError(
                f"devices={list(devices)}: a learner trains on one device; name one"
            )
        self._device = torch.device(devices[0])
        return self

    def num_epochs(self, number: int) -> "LearnerBuilder":
        """Trains for this many epochs in all."""
        return self._with(num_epochs=number)

    def log_every(self, updates: int) -> "LearnerBuilder":
        """Writes a log point every so many updates."""
        return self._with(log_every=updates)

    def seed(self, seed: int) -> "LearnerBuilder":
        """Draws everything random in the updates from this."""
        return self._with(seed=seed)

    def grads_accumulation(self, batches: int) -> "LearnerBuilder":
        """Updates once for so many batches, by the mean of their gradients; an epoch's last group may be short."""
        return self._with(grads_accumulation=batches)

    def clip(self, clip: float | Mapping[Any, float]) -> "LearnerBuilder":
        """Clips the gradients of all parameters: by their joint norm, or as `{norm: x}` or `{value: x}` say."""
        return self._with(clip=clipping.from_value(clip))

    def sam(self, rho: float) -> "LearnerBuilder":
        """Takes each update's gradients at the worst weights within `rho` (sharpness-aware minimisation), in two steps."""
        return self._with(sam=rho)

    def precision(self, name: precision.Name) -> "LearnerBuilder":
        """Computes in `fp32`, `tf32`, `bf16` or `fp16`; weights and gradients stay float32."""
        self._precision = name
        return self

    def on_nonfinite(self, policy: nonfinite.Policy) -> "LearnerBuilder":
        """What becomes of an update whose loss or gradients are no numbers: `stop`, `skip`, or `ignore` what they are."""
        self._on_nonfinite = policy
        return self

    def averages(self, **rules: Rule) -> "LearnerBuilder":
        """Keeps averages of the weights, each under its name, and measures the model with them too."""
        self._averages |= rules
        return self

    def early_stopping(self, **rules: EarlyStopping) -> "LearnerBuilder":
        """Ends the run as soon as one of these rules says so."""
        self._early_stopping |= rules
        return self

    def interrupter(self, interrupter: Interrupter) -> "LearnerBuilder":
        """Has the run stop, saved, where this says so."""
        return self._with(interrupter=interrupter)

    def histograms(self) -> "LearnerBuilder":
        """Adds the distribution of every weight and gradient to each log point."""
        return self._with(histograms=True)

    def summary(self) -> "LearnerBuilder":
        """Writes `run_dir`/summary.json at the end and shows it as a table."""
        return self._with(writes_summary=True)

    def build(
        self, model: nn.Module, optimizer: Optimizer | GroupedOptimizer, lr: float | Schedule
    ) -> Learner:
        """The learner, its model moved to the device; one optimizer is taken as the owner of all parameters.

        Raises: TypeError if the model lacks a step; ConfigError if the checkpoint strategy needs a metric nobody measures.
        """
        if not isinstance(model, TrainStep) or not isinstance(model, ValidStep):
            raise TypeError(
                f"{type(model).__name__} has no train_step and valid_step; wrap it in a task, such as Classifier(network)"
            )
        self._check_metrics()
        journal = Journal(
            train_metrics=self._train_metrics,
            valid_metrics=self._valid_metrics,
            writers=self._default_writers() if self._writers is None else self._writers,
            renderer=self._renderer,
            num_epochs=self._options.get("num_epochs", 10),
            refuses_nonfinite=self._on_nonfinite == "stop",
            device=self._device,
        )
        model = model.to(self._device)
        return Learner(
            model,
            optimizer
            if isinstance(optimizer, GroupedOptimizer)
            else GroupedOptimizer.of(optimizer, model),
            schedules.from_value(lr),
            journal=journal,
            checkpointer=self._checkpointer(),
            guard=nonfinite.Guard(
                self._on_nonfinite, precision.Precision(self._precision, self._device), self.run_dir
            ),
            averages={name: WeightAverage(rule, model) for name, rule in self._averages.items()},
            stopping=stopping.Stopping(self._early_stopping, model),
            run_dir=self.run_dir,
            **self._options,
        )

    def _checkpointer(self) -> FileCheckpointer | None:
        return (
            FileCheckpointer(self.run_dir / state.CHECKPOINTS, self._strategy, self._cadence)
            if self._strategy
            else None
        )

    def _check_metrics(self) -> None:
        """Whatever waits for a metric waits for one that is measured."""
        measured = {"train": self._train_metrics, "valid": self._valid_metrics}
        by_split = {
            split: [metric.name for metric in metrics] for split, metrics in measured.items()
        }
        by_split |= {f"valid-{name}": by_split["valid"] for name in self._averages}
        stopping.check(self._early_stopping, by_split)
        waiting: dict[str, Any] = {
            f"early_stopping.{name}": rule for name, rule in self._early_stopping.items()
        }
        waiting |= [
            ("checkpoint", part) for part in self._parts_of_strategy() if isinstance(part, KeepBest)
        ]
        own = direction.of([*self._train_metrics, *self._valid_metrics])
        direction.check(
            {option: (rule.metric, rule.direction) for option, rule in waiting.items()}, own
        )
        for part in self._parts_of_strategy():
            if isinstance(part, KeepBest):
                names = [metric.name for metric in measured[part.split]]
                if part.metric not in names:
                    raise errors.ConfigError(
                        [
                            f"checkpoint.metric={part.metric}: not measured on {part.split}; there is: {', '.join(names)}"
                        ]
                    )

    def _parts_of_strategy(self) -> Sequence[Strategy | None]:
        parts: Sequence[Strategy | None] = getattr(self._strategy, "strategies", [self._strategy])
        return parts

    def _default_writers(self) -> list[Writer]:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        return [
            JsonLinesWriter(self.run_dir / "metrics.jsonl"),
            TensorBoardWriter(self.run_dir / "tensorboard"),
        ]

    def _with(self, **option: Any) -> "LearnerBuilder":
        self._options |= option
        return self

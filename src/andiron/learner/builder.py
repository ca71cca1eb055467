"""LearnerBuilder: builds a Learner from options and components, like Burn's."""

from __future__ import annotations  # help() shows them as they stand: Count | None

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from andiron import errors, ranges, render
from andiron.checkpoint import Checkpointer, FileCheckpointer, LocalStore, Store, checkpointing
from andiron.checkpoint.store import SilentCheckpointer
from andiron.checkpoint.strategies import Strategy
from andiron.data import Splits
from andiron.distributed import World
from andiron.interrupter import Interrupter
from andiron.learner.construction import Choices, construct
from andiron.learner.extras.early_stopping import EarlyStopping
from andiron.learner.extras.observers import Observer
from andiron.learner.learner import Learner
from andiron.learner.run_host import RunHost
from andiron.metrics.classification.worst_classes import Answers
from andiron.optim import GroupedOptimizer, Optimizer
from andiron.optim.own.averaging import Rule
from andiron.optim.transformations import Transformation
from andiron.options import Clip, LearnerOptions
from andiron.plain.cadence import EVERY_EPOCH, Cadence
from andiron.protocols import Metric, Renderer, Writer
from andiron.ranges import Count, Duration, Every, Positive, Seed, Traced
from andiron.run_folder import folder_at
from andiron.schedules import Schedule
from andiron.writers import default_writers

DEFAULT_STRATEGY = checkpointing().strategy


class LearnerBuilder:
    """Collects the options and components of a Learner; `build` checks that they fit together.

    Without `run_dir` the run is in a new folder, outputs/<date>/<time>. In a folder that holds a
    run, `overwrite` replaces that run, and `resume` continues it from its newest checkpoint, or
    starts it if there is none; `resume_allow` names the options that may differ from the record,
    such as ["lr", "batch_size"] (docs/resuming.md). The others are options of conf/train.yaml, with
    their meanings there; `options(num_epochs=3)` changes them later.
    Without `with_writers`, values go to `run_dir`/metrics.jsonl and `run_dir`/tensorboard.
    Raises: ValueError for an option outside its range.
    """

    # options: generated from options.py by scripts/generate_reference.py
    def __init__(
        self,
        run_dir: Path | str | None = None,
        *,
        overwrite: bool = False,
        resume: bool = False,
        resume_allow: Sequence[str] = (),
        num_epochs: Count | None = 10,
        num_updates: Count | None = None,
        max_time: Duration | None = None,
        seed: Seed = 42,
        grads_accumulation: Count = 1,
        clip: Clip | None = None,
        sam: Positive | None = None,
        precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32",
        graph: bool | Literal["auto"] = False,
        on_nonfinite: Literal["stop", "skip", "ignore"] = "stop",
        log_every: Every = 20,
        validate_every: Every = "1epochs",
        validate_first: bool = False,
        histograms: bool | str = False,
        profile: Traced | None = None,
        test_weights: Literal["last", "best"] = "last",
    ):
        options = LearnerOptions(
            num_epochs=num_epochs, num_updates=num_updates, max_time=max_time, seed=seed,
            grads_accumulation=grads_accumulation, clip=clip, sam=sam, precision=precision,
            graph=graph, on_nonfinite=on_nonfinite, log_every=log_every,
            validate_every=validate_every, validate_first=validate_first, histograms=histograms,
            profile=profile, test_weights=test_weights
        )  # fmt: skip
        folder = folder_at(run_dir)
        self._chosen = Choices(
            folder, options, default_writers, Answers, overwrite, resume, resume_allow,
            renderer=render.for_python(),
        )  # fmt: skip

    # end of the options

    def hosted(self, host: RunHost) -> "LearnerBuilder":
        """Sets the place of the run, for a caller that keeps the folder, its status and its log."""
        return self._choose(host=lambda *_: host)

    def options(self, options: LearnerOptions | None = None, **named: Any) -> "LearnerBuilder":
        """Sets all options at once, and those that are named; without `options`, only those."""
        return self._choose(options=replace(options or self._chosen.options, **named))

    def metric_train_numeric(self, *metrics: Metric) -> "LearnerBuilder":
        """Adds metrics of the training data."""
        return self._choose(train_metrics=self._chosen.train_metrics + metrics)

    def metric_valid_numeric(self, *metrics: Metric) -> "LearnerBuilder":
        """Adds metrics of the validation data, and of the test data at the end."""
        return self._choose(valid_metrics=self._chosen.valid_metrics + metrics)

    def valid_set(self, name: str, *, every: Every | None = None) -> "LearnerBuilder":
        """Adds a further validation set, such as `night`; `fit` takes its loader in `more`.

        It is measured `every` N updates, epochs or minutes, by default as `validate_every`, by the
        metrics of the validation data.
        Raises: ConfigError for a name that is not allowed.
        """
        if not ranges.is_set_name(name):
            raise errors.ConfigError(f"validation set {name!r}: should be {ranges.SET_NAMES}")
        return self._choose(sets={**self._chosen.sets, name: every})

    def with_file_checkpointer(
        self,
        strategy: Strategy = DEFAULT_STRATEGY,
        cadence: Cadence | None = None,
        store: Callable[[Path], Store] = LocalStore,
        run: str | None = None,
    ) -> "LearnerBuilder":
        """Saves checkpoints in `run_dir`/checkpoints, by default after each epoch.

        The default strategy keeps the last two and the best. `run` is the identity recorded in the
        checkpoints, by default that in the run's manifest; resuming ignores other checkpoints.
        """
        folder, every = self._chosen.folder, cadence or EVERY_EPOCH

        def checkpointer(world: World) -> Checkpointer:
            kind = FileCheckpointer if world.rank == 0 else SilentCheckpointer
            own = kind(store(folder.checkpoints), strategy, every, run)
            return world.sharding.checkpointer(own) if world.sharding else own

        return self._choose(strategy=strategy, checkpointer=checkpointer)

    def with_writers(self, *writers: Writer, **named: Writer) -> "LearnerBuilder":
        """Sets the writers of logged values; unnamed ones are named by class and position."""
        numbered = {f"{type(w).__name__}-{number}": w for number, w in enumerate(writers)}
        return self._choose(writers=numbered | named)

    def renderer(self, renderer: Renderer | None) -> "LearnerBuilder":
        """Sets the renderer that shows progress; None prints nothing.

        Default: a line for each epoch; in a notebook the lab's bar and table, redrawn.
        """
        return self._choose(renderer=renderer)

    def devices(self, devices: Sequence[torch.device | str]) -> "LearnerBuilder":
        """Sets the device to train on.

        Raises: DeviceError unless there is exactly one.
        """
        if len(devices) != 1:
            why = "a process trains on one device; name one, and start one for each with torchrun"
            raise errors.DeviceError(f"devices={list(devices)}: {why}")
        return self._choose(device=torch.device(devices[0]))

    def gradient_transforms(self, *transforms: Transformation) -> "LearnerBuilder":
        """Adds transformations of the mean gradients of every update, applied before `clip`."""
        return self._choose(transforms=self._chosen.transforms + transforms)

    def averages(self, **rules: Rule) -> "LearnerBuilder":
        """Adds averages of the weights by name; validation also measures the model with them."""
        return self._choose(averages={**self._chosen.averages, **rules})

    def early_stopping(self, **rules: EarlyStopping) -> "LearnerBuilder":
        """Adds early stopping rules; the run stops when one of them applies."""
        return self._choose(early_stopping={**self._chosen.early_stopping, **rules})

    def observers(self, **observers: Observer) -> "LearnerBuilder":
        """Adds observers by name, called after updates and validations (docs/observers.md)."""
        return self._choose(observers={**self._chosen.observers, **observers})

    def interrupter(self, interrupter: Interrupter) -> "LearnerBuilder":
        """Sets the interrupter, whose `stop` ends the run after an update, with its state saved."""
        return self._choose(interrupter=interrupter)

    def world(self, world: World) -> "LearnerBuilder":
        """Sets which process this is of several that train the run; only rank 0 saves."""
        return self._choose(world=world)

    def data(self, splits: Splits) -> "LearnerBuilder":
        """Sets the data set whose loaders `fit` gets, for the record: checksum, facts, origin.

        With it, `andiron.load` and the commands prepare inputs as in training, and find the data.
        """
        return self._choose(data=splits)

    def unrecorded(self) -> "LearnerBuilder":
        """Writes no record and no results: commands do not know the run."""
        return self._choose(is_recorded=False)

    def build(
        self,
        model: nn.Module,
        optimizer: Optimizer | GroupedOptimizer | torch.optim.Optimizer,
        lr: float | Schedule | LRScheduler | None = None,
    ) -> Learner:
        """The learner, with its model moved to the device; a single optimizer owns all parameters.

        A torch optimizer has its own rates, and its `torch.optim.lr_scheduler` is given as `lr`.
        Raises: TypeError if the model lacks a step; ConfigError if a checkpoint strategy or early
        stopping needs a metric that is not measured.
        """
        from andiron.shell.python_run import folder_host  # here: the shell stands on the learner

        chosen = self._chosen
        host_of = chosen.host or partial(folder_host.host_of, chosen)
        learner = construct(chosen, model, optimizer, lr, host_of)
        if chosen.resume and learner.checkpointer:
            folder_host.resume_or_start(learner.resume, chosen.folder, learner.checkpointer.store)
        return learner

    def _choose(self, **choices: Any) -> "LearnerBuilder":
        self._chosen = replace(self._chosen, **choices)
        return self

"""From a checked configuration to built parts, a trained model and the record of both."""

import dataclasses
import logging
import math
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from andiron.build import network
from andiron import checkpoint, devices, errors, files, randomness, serialization
from andiron.run import metadata
from andiron.checkpoint import Cadence, Checkpointing
from andiron.build import targets
from andiron.config.schema import Train
from andiron.data import DataLoader, DataLoaderBuilder, ImageBatcher, Splits
from andiron.interrupter import Interrupter
from andiron.learner import Learner, LearnerBuilder
from andiron.metrics import direction
from andiron.optim import GroupedOptimizer, averaging, group_table
from andiron.build import grouped_optimizer
from andiron.options import LearnerOptions
from andiron.protocols import Metric, Statistic, Writer
from andiron.run import folder
from andiron.schedules import Schedule
from andiron.writers import JsonLinesWriter, TensorBoardWriter

log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Parts:
    """What a configuration names, built; nothing is recorded yet."""

    splits: Splits
    train: DataLoader
    valid: DataLoader
    test: DataLoader
    device: torch.device
    model: nn.Module  # the task around the network
    optimizer: GroupedOptimizer
    schedule: Schedule
    updates_per_epoch: int


@dataclass(frozen=True)
class Experiment:
    """A run with every part built and recorded, not yet trained."""

    config: Train
    run_dir: Path
    learner: Learner
    parts: Parts
    tensorboard: TensorBoardWriter

    def run(self) -> nn.Module:
        """Trains, measures, and leaves `model.safetensors` and one for each average; gives back the trained model."""
        with ExitStack() as at_end:
            for loader in (self.parts.train, self.parts.valid, self.parts.test):
                at_end.callback(loader.close)
            at_end.enter_context(self.learner)
            try:
                model = self.learner.fit(self.parts.train, self.parts.valid, self.parts.test)
                results = {"run_dir": str(self.run_dir), **self.learner.summary()}
                with folder.written(self.run_dir):
                    files.write_json(self.run_dir / "summary.json", results)
                self.learner.metric_log.show(results)
                with folder.written(self.run_dir):
                    for name, weights in self.learner.exports().items():
                        serialization.save_tensors(self.run_dir / f"{name}.safetensors", weights)
            except errors.Interrupted:  # not its end: it will be taken up again
                raise
            except BaseException:
                self.tensorboard.end_session(succeeded=False)
                raise
            self.tensorboard.end_session(succeeded=True)
        return model


def build(
    config: Train,
    run_dir: Path,
    *,
    interrupter: Interrupter | None = None,
    changes: Mapping[str, list[Any]] | None = None,
) -> Experiment:
    """Every part of the run, the folder holding its record; with `changes`, which may be none, the run that is there goes on.

    Raises: ConfigError, DataError or DeviceError, before anything is trained.
    """
    randomness.seed_others(config.seed)
    built = parts(
        config if changes is None else dataclasses.replace(config, start_from=None)
    )  # its checkpoints have the weights
    found = None if changes is None else _found(config, run_dir, built, changes)
    with folder.written(run_dir), ExitStack() as on_failure:
        tensorboard = on_failure.enter_context(closing(TensorBoardWriter(run_dir / "tensorboard")))
        lines = on_failure.enter_context(closing(JsonLinesWriter(run_dir / "metrics.jsonl")))
        writers: dict[str, Writer] = {"json_lines": lines, "tensorboard": tensorboard}
        ready = learner(config, built, run_dir, writers, interrupter=interrupter)
        if changes is None or found is None:
            groups = group_table.param_groups(built.optimizer.groups, ready.rates)
            metadata.begin(
                config,
                run_dir,
                built.splits,
                device=built.device,
                groups=groups,
                tensorboard=tensorboard,
            )
        else:
            _go_on(config, built, ready, found, changes)
            metadata.go_on(
                config,
                run_dir,
                built.splits,
                device=built.device,
                updates=ready.updates,
                changes=changes,
            )
        on_failure.pop_all()
    _announce(built, run_dir)
    return Experiment(config, run_dir, ready, built, tensorboard)


Saved = tuple[Path, checkpoint.Checkpoint]


def _found(config: Train, run_dir: Path, built: Parts, changes: Mapping[str, list[Any]]) -> Saved:
    """The run's newest whole checkpoint, from which it can go on as the configuration says."""
    metadata.check_data(run_dir, built.splits)
    saved, newest = checkpoint.newest_whole(run_dir / "checkpoints")
    epoch, batch = newest.state["epoch"], newest.state["batch"]
    if config.num_epochs < epoch + (batch > 0):
        behind = f"{epoch} whole epochs and {batch} batches behind it"
        raise errors.ConfigError(
            [
                f"num_epochs={config.num_epochs}: the run has {behind}; ask for as many, or leave it out"
            ]
        )
    if {"batch_size", "grads_accumulation"} & changes.keys():
        _check_horizon(config, built, changes)
    return saved, newest


def _go_on(
    config: Train, built: Parts, ready: Learner, found: Saved, changes: Mapping[str, list[Any]]
) -> None:
    """Puts the learner where the checkpoint found it, less what was changed."""
    try:
        saved = ready.resume(_moved(config, built, found, changes))
    except ValueError as error:
        raise errors.ConfigError([f"{found[0]}: {error}"]) from error
    if ready.early_stopping.decision:
        log.warning(
            "it stopped early: %s; other early_stopping options would have it go on",
            ready.early_stopping.decision.reason,
        )
    at = ready.position
    batches = f"{at.batch} of its {len(built.train)} batches"
    where = f"update {at.updates}, epoch {at.epoch + 1}, after {batches}"
    log.info("going on from %s: %s", saved, where)


def _check_horizon(config: Train, built: Parts, changes: Mapping[str, list[Any]]) -> None:
    """Refuses another number of updates in an epoch where the learning rate depends on how many there will be."""
    before = {
        name: changes.get(name, [getattr(config, name)])[0]
        for name in ("batch_size", "grads_accumulation")
    }
    batches = math.ceil(len(built.splits.train) / before["batch_size"])
    horizons = _horizons(config.num_epochs, batches, before["grads_accumulation"])
    schedule = targets.build_schedule("scheduler", config.scheduler, **horizons)
    if built.optimizer.schedules or any(
        schedule(update) != built.schedule(update) for update in range(horizons["num_updates"])
    ):
        names = ", ".join(name for name in before if name in changes)
        raise errors.ConfigError(
            [f"{names}: the schedule counts on the updates there were to be in an epoch, {horizons['updates_per_epoch']}, not "
             f"{built.updates_per_epoch}; leave it, or go on with scheduler=constant and resume_allow=[{names}, scheduler]"]
        )  # fmt: skip


def _moved(config: Train, built: Parts, found: Saved, changes: Mapping[str, list[Any]]) -> Saved:
    """The checkpoint with the seed and the place in the epoch that the changed options give."""
    folder, saved = found
    state = dict(saved.state)
    if "seed" in changes:
        state["seed"] = config.seed
    if "batch_size" in changes:  # some samples may come again, none is left out
        before, now = changes["batch_size"]
        is_over = state["batch"] * before >= built.train.num_items
        state["batch"] = len(built.train) if is_over else state["batch"] * before // now
    return folder, dataclasses.replace(saved, state=state)


def parts(config: Train) -> Parts:
    """What the configuration names.

    Raises: ConfigError, DataError or DeviceError.
    """
    device = devices.resolve(config.device)
    splits: Splits = targets.build("data", config.data)
    if not isinstance(splits, Splits):
        name = f"data._target_={config.data['_target_']}"
        raise errors.ConfigError(
            [f"{name}: gives {type(splits).__name__}; return andiron.data.Splits"]
        )
    if config.channels_last:
        splits = _channels_last(splits)
    train, valid, test = (
        _loader(config, splits, part, device) for part in ("train", "valid", "test")
    )
    horizons = _horizons(config.num_epochs, len(train), config.grads_accumulation)
    model = network.model(config, splits).to(device)
    optimizer = grouped_optimizer.build(config, model, **horizons)
    schedule: Schedule = targets.build_schedule("scheduler", config.scheduler, **horizons)
    return Parts(
        splits,
        train,
        valid,
        test,
        device,
        model,
        optimizer,
        schedule,
        horizons["updates_per_epoch"],
    )


def _horizons(num_epochs: int, batches: int, grads_accumulation: int) -> dict[str, int]:
    """How many updates there are to be, which schedules may ask for."""
    updates_per_epoch = math.ceil(batches / grads_accumulation)
    return {"num_updates": num_epochs * updates_per_epoch, "updates_per_epoch": updates_per_epoch}


def _channels_last(splits: Splits) -> Splits:
    if not isinstance(splits.batcher, ImageBatcher):
        name = type(splits.batcher).__name__
        raise errors.ConfigError(
            [f"channels_last=True: {splits.name} gives no images ({name}); leave it out"]
        )
    return dataclasses.replace(
        splits, batcher=dataclasses.replace(splits.batcher, channels_last=True)
    )


def _loader(config: Train, splits: Splits, part: str, device: torch.device) -> DataLoader:
    builder = DataLoaderBuilder(splits.batcher).num_workers(config.num_workers).device(device)
    if part != "train":
        return builder.batch_size(max(config.batch_size, splits.evaluation_batch_size)).build(
            getattr(splits, part)
        )
    augmentations = [
        targets.build(f"augmentation.{name}", node, name=name, **splits.offered)
        for name, node in (config.augmentation or {}).items()
    ]
    return (
        builder.batch_size(config.batch_size)
        .shuffle(config.seed)
        .augment(*augmentations)
        .build(splits.train)
    )


def learner(
    config: Train,
    built: Parts,
    run_dir: Path,
    writers: Mapping[str, Writer] | None = None,
    *,
    interrupter: Interrupter | None = None,
) -> Learner:
    """The learner over the parts, with everything else that the configuration says of it."""
    offered = built.splits.offered
    metrics = [_metric(name, node, offered) for name, node in config.metrics.items()]
    builder = (
        LearnerBuilder(run_dir)
        .metric_train_numeric(*metrics)
        .metric_valid_numeric(*metrics)
        .devices([built.device])
        .options(_learner_options(config))
        .averages(**_averages(config, built.updates_per_epoch))
        .early_stopping(**_early_stopping(config, metrics, built.updates_per_epoch))
        .with_writers(**(writers or {}))
    )
    if interrupter is not None:
        builder.interrupter(interrupter)
    if config.checkpoint:
        kept = _waiting("checkpoint", config.checkpoint, metrics)
        kept = (
            kept if isinstance(kept, Checkpointing) else Checkpointing(kept, Cadence(epochs=1))
        )  # a strategy of a user's own
        builder.with_file_checkpointer(kept.strategy, kept.cadence)
    if config.render:
        builder.renderer(targets.build("render", config.render))
    return builder.build(built.model, built.optimizer, built.schedule)


def _metric(name: str, node: dict[str, Any], offered: dict[str, Any]) -> Any:
    metric = targets.build(f"metrics.{name}", node, name=name, **offered)
    if not isinstance(metric, Metric | Statistic):
        remedy = "give it a name, higher_is_better and a call with the item, or put it behind andiron.metrics.Mean or Torchmetrics"
        raise errors.ConfigError(
            [f"metrics.{name}._target_={node['_target_']}: gives no metric; {remedy}"]
        )
    return metric


def _learner_options(config: Train) -> LearnerOptions:
    names = [field.name for field in dataclasses.fields(LearnerOptions)]
    return LearnerOptions(**{n: getattr(config, n) for n in names if hasattr(config, n)})


def _early_stopping(config: Train, metrics: list[Any], updates_per_epoch: int) -> dict[str, Any]:
    rules = targets.in_updates(config.early_stopping or {}, updates_per_epoch)
    return {name: _waiting(f"early_stopping.{name}", node, metrics) for name, node in rules.items()}


def _waiting(option: str, node: dict[str, Any], metrics: list[Any]) -> Any:
    """What waits for a metric, told which way that one improves."""
    own = direction.own(direction.of(metrics), str(node.get("metric")))
    return targets.build(option, node, direction=own or "lowest")


def _averages(config: Train, updates_per_epoch: int) -> dict[str, averaging.Rule]:
    rules = {
        name: targets.build(f"averages.{name}", targets.in_updates(node, updates_per_epoch))
        for name, node in (config.averages or {}).items()
    }
    last = config.num_epochs * updates_per_epoch
    idle = [
        name
        for name, rule in rules.items()
        if all(rule.weight(update, 0) is None for update in range(last, 0, -1))
    ]
    if idle:
        why = f"no weights enter it in the {last} updates of this run; start earlier, or train for longer"
        raise errors.ConfigError(f"averages.{name}: {why}" for name in idle)
    return rules


def _announce(built: Parts, run_dir: Path) -> None:
    splits = built.splits
    log.info("run folder %s", run_dir)
    sizes = f"{len(splits.train)} train, {len(splits.valid)} valid, {len(splits.test)} test"
    log.info("data %s: %s, %s", splits.name, sizes, built.train.path)
    if splits.validates_on_test:
        log.warning(
            "data.valid=test: validation runs on the test set, so no number here was measured on data kept aside"
        )

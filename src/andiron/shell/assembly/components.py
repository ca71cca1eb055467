"""Builds the configured components: data, model, optimizer and schedule; records nothing yet."""

import copy
import dataclasses
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn

from andiron import errors
from andiron.data import DataLoader, DataLoaderBuilder, ImageBatcher, Splits
from andiron.data.composed.derived_splits import few
from andiron.data.loading import host_memory, workers
from andiron.disk import guarded_folders
from andiron.distributed import World
from andiron.optim import GroupedOptimizer
from andiron.optim.owners import group_table
from andiron.options import LearnerOptions
from andiron.plain import readable, wings
from andiron.plain.plain_values import Named
from andiron.schedules import Schedule
from andiron.shell.assembly import (
    devices,
    division,
    grouped_optimizer,
    network,
    target_kinds,
    targets,
)
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.config import trust
from andiron.shell.config.leaves import leaves
from andiron.shell.config.schema import Train
from andiron.shell.run import lab_options

log = logging.getLogger("andiron")
CHOOSING = {f"andiron.data.{name}" for name in ("balanced", "kfold", "partial")}
START_FROM = "trained.start_from"  # of the wings
SHARDED = "sharded.fully_sharded"
CSV, PICTURES = "andiron.data.csv", "andiron.data.image_folder"
MOST_CLASSES = 20  # named in a line
BOTH = {"_target_": "andiron_lab.masks.OnFields", "fields": ["inputs", "targets"]}
HALF_UPDATES_OF_DEBUG = 7  # in an epoch of debug=true: three updates and a short one


@dataclass(frozen=True)
class Components:
    """The built components of a run, for its learner."""

    splits: Splits
    train: DataLoader
    valid: DataLoader
    test: DataLoader
    device: torch.device
    model: nn.Module  # the task around the network
    optimizer: GroupedOptimizer
    schedule: Schedule
    num_updates: int  # planned for the whole run
    updates_per_epoch: int
    world: World
    more: Mapping[str, DataLoader]  # further validation sets
    started: Named  # for the record: the weights that `start_from` names

    @property
    def loaders(self) -> list[DataLoader]:
        """All loaders."""
        return [self.train, self.valid, self.test, *self.more.values()]


def build(
    config: Train,
    trusted: trust.Trust | None = None,
    size_limit: SizeLimit | None = None,
    world: World | None = None,
) -> Components:
    """The configured components; `trusted` is for a configuration from a run folder.

    In a `world` of several processes, rank 0 builds them first. With `trusted`, only what it allows
    is built, with a network within `size_limit`, and nothing is downloaded or cached.
    Raises: ConfigError, DataError or DeviceError.
    """
    world = world or World(slices=config.slices)
    if trusted is not None:
        target_kinds.check(dataclasses.asdict(config), trusted)
    if config.shards:
        lab_options.module(SHARDED, "strategy=fsdp").join_groups(config, world)
    with nullcontext() if trusted is None else unwritten():
        weights = world.decided(partial(_weights_to_start_from, config, trusted))
        components = world.after_first(partial(_built, config, size_limit, weights, world))
    _check_same(components.splits, world)
    host_memory.map_once([loader.dataset for loader in components.loaders], world)
    return components


def _weights_to_start_from(config: Train, trusted: trust.Trust | None) -> list[Path] | None:
    """The files that `start_from` names; None without it.

    A fork has the weights of its parent.
    Raises: ConfigError without the wing that reads them; see its `weights_of`.
    """
    if config.start_from is None or config.fork_from is not None:
        return None
    if (reader := wings.optional(START_FROM)) is None:
        raise errors.ConfigError("start_from: is read by andiron/wings/trained, which is missing")
    files: list[Path] = reader.weights_of(config, trusted)
    return files


def _check_same(splits: Splits, world: World) -> None:
    """Refuses a data set that has other samples in another process."""
    seen = world.gathered((len(splits.train), splits.fingerprint))
    if len({*seen}) > 1:
        raise errors.DataError(
            f"data: processes read other samples ({seen[0][0]} in process 0, {seen[-1][0]} in "
            f"process {len(seen) - 1}), as of a data set that divides itself by rank; batches are "
            "divided later, so give each process all samples: nodesplitter=lambda urls: urls for "
            "webdataset, no split_dataset_by_node for datasets, for litdata "
            "stream.distributed_env = type(stream.distributed_env)(1, 0, 1)"
        )


def unwritten() -> AbstractContextManager[None]:
    """A context in which components are built without downloads or cached files."""
    return guarded_folders.writing_refused(
        "a run folder's config.json must not create files elsewhere"
    )


def _built(
    config: Train, size_limit: SizeLimit | None, weights: list[Path] | None, world: World
) -> Components:
    too_many = workers.problem(config.num_workers)
    if problems := [*division.option_problems(config, world), *filter(None, [too_many])]:
        raise errors.ConfigError(problems)
    device = devices.resolve(config.device)
    splits = data(config)
    model = network.model(config, splits, size_limit)
    train, valid, test, *more = (
        _loader(config, splits, name, device, world) for name in splits.by_name
    )
    lengths = horizons(config, len(train))
    started = {}
    if weights is not None:
        loaded = wings.optional(START_FROM).load(config, weights, model, splits.facts)
        started = {"start_from": loaded}
    add_adapters(config, model, size_limit)
    if config.strategy == "fsdp":
        sharding = lab_options.module(SHARDED, "strategy=fsdp")
        sharding.shard_configured(model, splits, config, world)
    model = model.to(device)
    if config.sync_batchnorm and world.size > 1:
        model = division.synchronised(model, train, world)
    schedule = targets.build_schedule("scheduler", config.scheduler, **lengths)
    optimizer = grouped_optimizer.build(config, model, schedule, **lengths)
    if problems := [*division.problems(model, optimizer, world)]:
        raise errors.ConfigError(problems)
    return Components(
        splits, train, valid, test, device, model, optimizer, schedule, **lengths,
        world=world, more=dict(zip(splits.more, more, strict=True)), started=started,
    )  # fmt: skip


def add_adapters(config: Train, model: nn.Module, size_limit: SizeLimit | None) -> None:
    """Puts the lab's adapters around the layers whose rule has one."""
    if adapters := lab_options.adapters(config.param_groups):
        adapters.add(config, model, size_limit)


def horizons(options: LearnerOptions, batches: int) -> dict[str, int]:
    """The number of updates in the run and in an epoch of `batches`; schedules need them."""
    updates_per_epoch = math.ceil(batches / options.grads_accumulation)
    num_updates = options.num_updates or (options.num_epochs or 0) * updates_per_epoch
    return {"num_updates": num_updates, "updates_per_epoch": updates_per_epoch}


def data(config: Train) -> Splits:
    """The configured data set, in its parts.

    Raises: ConfigError or DataError.
    """
    task = targets.resolve("task._target_", config.task["_target_"])
    is_of_classes = getattr(task, "wanted_fact", None) == "num_classes"
    node, prepared = copy.deepcopy(config.data), network.preprocessing(config.model)
    resized = {key: prepared[key] for key in ("size", "resizing") if key in prepared}
    for _, _, inner in trust.nodes({"data": node}):
        if is_of_classes and inner["_target_"] == CSV and inner.get("kind") is None:
            inner["kind"] = "integer_classes"
        if inner["_target_"] in CHOOSING and inner.get("targets") is None:
            inner["targets"] = network.targets_field(task, config.task)
        if inner["_target_"] == PICTURES:  # null: as the network says; left out: as before it did
            inner |= {key: resized[key] for key in resized if inner.get(key, "") is None}
    splits = targets.build_instance("data", node, Splits, "andiron.data.Splits")
    splits = _prepared(splits, prepared, channels_last=config.channels_last)
    if config.debug:
        samples_per_update = config.batch_size * config.grads_accumulation
        splits = few(splits, HALF_UPDATES_OF_DEBUG * samples_per_update // 2)
    return splits


def _prepared(splits: Splits, own: Named, *, channels_last: bool) -> Splits:
    """The splits with the network's own mean and deviation of pixels, and its tokenizer.

    Pixels may be channels-last.
    """
    mean, std, batcher = own.get("mean", ()), own.get("std", ()), splits.batcher
    if isinstance(batcher, ImageBatcher):
        if len(mean) == splits.input_shape[0]:
            log.info("pixels are normalised by the network's own mean %s and std %s", mean, std)
            batcher = dataclasses.replace(batcher, mean=mean, std=std)
        if channels_last:
            batcher = dataclasses.replace(batcher, channels_last=True)
    elif channels_last:
        name = type(batcher).__name__
        raise errors.ConfigError(
            f"channels_last=True: {splits.name} gives no images ({name}); leave it out"
        )
    facts = {**splits.facts, **{key: own[key] for key in own if key == "tokenizer"}}
    # `refit` holds all samples, once more
    return dataclasses.replace(splits, facts=facts, batcher=batcher, refit=None)


def _loader(
    config: Train, splits: Splits, name: str, device: torch.device, world: World
) -> DataLoader:
    builder = DataLoaderBuilder(splits.batcher).num_workers(config.num_workers)
    builder = builder.device(device).world(world)
    dataset = splits.by_name[name]
    if name != "train":
        batch_size = max(config.batch_size, splits.evaluation_batch_size)
        return builder.batch_size(batch_size).build(dataset)
    augmentations = targets.build_each(
        "augmentation", config.augmentation, Callable,
        "a function of a raw batch and its draws, which gives the batch", **splits.offered
    )  # fmt: skip
    if "target_shape" in splits.facts:  # masks move with their pictures
        for name, node in (config.augmentation or {}).items():
            if node["_target_"] != BOTH["_target_"]:
                own = {"augmentation": augmentations[name]}
                augmentations[name] = targets.build(f"augmentation.{name}", BOTH, **own)
    training = builder.batch_size(config.batch_size).shuffle(config.seed)
    return training.augment(*augmentations.values()).build(dataset)


def log_data(config: Train, built: Components) -> None:
    """Logs the sizes of the data and of the groups; warns of options and data that mislead."""
    splits = built.splits
    division.warn(built.model, built.world)
    sizes = ", ".join(f"{len(dataset)} {name}" for name, dataset in splits.by_name.items())
    log.info("data %s: %s, %s", splits.name, sizes, built.train.path)
    _log_classes(splits)
    shape = splits.facts.get("input_shape", ())
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] == shape[1] > 4:
        log.warning(
            "samples of shape %s look like pictures with their channels last, and networks take "
            "the first dimension for channels: permute them",
            [*shape],
        )
    groups = built.optimizer.groups
    if len(groups) > 1:
        log.info("parameter groups: %s", "; ".join(map(group_table.summary, groups.values())))
    if config.lr not in dict(leaves(config.scheduler, opens_lists=True)).values():
        log.warning("lr=%g is used by no part of scheduler, which has rates of its own: %s",
                    config.lr, built.schedule)
    if config.grads_accumulation > len(built.train):
        log.warning(
            "grads_accumulation=%d: an update takes the batches of one epoch at most, here %d",
            config.grads_accumulation, len(built.train)
        )
    if splits.validates_on_test:
        log.warning(
            "data.valid=test: validation runs on the test set, so no number here comes from "
            "held-out data"
        )


def _log_classes(splits: Splits) -> None:
    """Logs the number of samples of each class that train, and the classes that a part lacks."""
    for part in ("train", "valid", "test"):
        counts = splits.counts_of(part) or []
        named = [*zip(splits.facts.get("class_names", range(len(counts))), counts)]
        if part == "train" and counts:
            shown = [f"{name} {count}" for name, count in named]
            log.info("%d classes: %s", len(counts), readable.joined(shown, MOST_CLASSES))
        if absent := [name for name, count in named if not count]:
            log.warning("%s has no sample of %d classes: %s",
                        part, len(absent), readable.joined(absent, MOST_CLASSES))

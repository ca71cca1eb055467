"""From a checked configuration to built parts, a trained model and the record of both."""

import dataclasses
import json
import logging
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from andiron import errors, files, randomness, records
from andiron.config import targets
from andiron.config.schema import Train
from andiron.data import DataLoader, DataLoaderBuilder, Splits
from andiron.data.arrays import ArrayDataset
from andiron.learner import Learner, LearnerBuilder
from andiron.optim import Optimizer, ownership
from andiron.run import provenance
from andiron.schedules import Schedule
from andiron.tasks import Classifier
from andiron.writers import JsonLinesWriter, TensorBoardWriter

HYPERPARAMETERS = ("lr", "batch_size", "num_epochs", "seed")
HYPERPARAMETER_GROUPS = ("optimizer", "model", "data", "scheduler")
EVALUATION_BATCH = 256  # on a CPU, 64 to 256 images a batch are three times as fast an image as 1,024
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Experiment:
    """A run with every part built and recorded, not yet trained."""

    config: Train
    run_dir: Path
    learner: Learner
    train: DataLoader
    valid: DataLoader
    test: DataLoader
    tensorboard: TensorBoardWriter

    def run(self) -> nn.Module:
        """Trains, measures, and leaves `model.safetensors`; gives back the trained model."""
        succeeded = False
        with self.learner:
            try:
                model = self.learner.fit(self.train, self.valid, self.test)
                records.save_tensors(self.run_dir / "model.safetensors", model.state_dict())
                succeeded = True
            finally:
                self.tensorboard.end_session(succeeded=succeeded)
        return model


def build(config: Train, run_dir: Path) -> Experiment:
    """Every part of the run, the folder holding its record.

    Raises: ConfigError, DataError or DeviceError, before anything is trained.
    """
    device = resolve_device(config.device)
    splits: Splits = targets.build("data", config.data)
    train, valid, test = (_loader(config, splits, part, device) for part in ("train", "valid", "test"))
    model = build_model(config, splits).to(device)
    optimizer = build_optimizer(config, model)
    schedule: Schedule = targets.build("scheduler", config.scheduler, num_updates=config.num_epochs * len(train))
    with ExitStack() as on_failure:
        tensorboard = on_failure.enter_context(closing(TensorBoardWriter(run_dir / "tensorboard")))
        lines = on_failure.enter_context(closing(JsonLinesWriter(run_dir / "metrics.jsonl")))
        learner = _builder(config, run_dir, device).with_writers(lines, tensorboard).build(model, optimizer, schedule)
        _record(config, run_dir, splits, device, ownership.param_groups(optimizer, schedule(0)), tensorboard)
        on_failure.pop_all()
    _announce(splits, train, device, run_dir)
    return Experiment(config, run_dir, learner, train, valid, test, tensorboard)


def resolve_device(name: str) -> torch.device:
    """The device of that name; `auto` is the first GPU, else Apple's, else the CPU.

    Raises: DeviceError if this machine has no such device.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    device = torch.device(name)
    there = {"cpu": True, "mps": mps, "cuda": cuda and (device.index or 0) < torch.cuda.device_count()}
    if not there[device.type]:
        found = ["cpu", *(["mps"] if mps else []), *(f"cuda:{i}" for i in range(torch.cuda.device_count() if cuda else 0))]
        raise errors.DeviceError(
            f"device={name}: this machine has no such device; it has: {', '.join(found)}; device=auto takes the best"
        )
    return device


def build_model(config: Train, splits: Splits) -> Classifier:
    """The task around the configured network, initialised from the seed."""
    randomness.start_stream(config.seed, "init")
    network = targets.build("model", config.model, input_shape=splits.input_shape, num_classes=splits.num_classes)
    return Classifier(network)


def build_optimizer(config: Train, model: nn.Module) -> Optimizer:
    """The configured optimizer, owner of every trainable parameter of `model`."""
    target = targets.function("optimizer", config.optimizer)
    if not (isinstance(target.func, type) and issubclass(target.func, torch.optim.Optimizer)):
        raise errors.ConfigError([f"optimizer._target_={config.optimizer['_target_']}: not a torch.optim.Optimizer class"])
    try:
        return Optimizer(target.func, model, **target.keywords)
    except (TypeError, ValueError) as error:
        raise errors.ConfigError([f"optimizer: {target.func.__name__} refuses its options: {error}"]) from error


def _loader(config: Train, splits: Splits, part: str, device: torch.device) -> DataLoader:
    dataset: ArrayDataset = getattr(splits, part)
    builder = DataLoaderBuilder(splits.batcher).num_workers(config.num_workers).device(device)
    if part == "train":
        return builder.batch_size(config.batch_size).shuffle(config.seed).build(dataset)
    return builder.batch_size(max(config.batch_size, EVALUATION_BATCH)).build(dataset)


def _builder(config: Train, run_dir: Path, device: torch.device) -> LearnerBuilder:
    metrics = [targets.build(f"metrics.{name}", node) for name, node in config.metrics.items()]
    builder = (
        LearnerBuilder(run_dir)
        .metric_train_numeric(*metrics)
        .metric_valid_numeric(*metrics)
        .devices([device])
        .num_epochs(config.num_epochs)
        .log_every(config.log_every)
        .seed(config.seed)
        .summary()
    )
    if config.checkpoint:
        builder.with_file_checkpointer(targets.build("checkpoint", config.checkpoint))
    if config.render:
        builder.renderer(targets.build("render", config.render))
    return builder


def _record(
    config: Train, run_dir: Path, splits: Splits, device: torch.device, groups: dict[str, Any], tensorboard: TensorBoardWriter
) -> None:
    sizes = {part: len(getattr(splits, part)) for part in ("train", "valid", "test")}
    data = {"name": splits.name, "sha256": splits.fingerprint, "sizes": sizes}
    origin, patch = provenance.gather(seed=config.seed, data=data, device=device)
    if patch:
        (run_dir / "dirty.patch").write_bytes(patch.encode(errors="surrogateescape"))
    files.write_json(run_dir / "provenance.json", origin)
    files.write_json(run_dir / "param_groups.json", groups)
    texts = {
        "config": _fenced(dataclasses.asdict(config)),
        "param_groups": ownership.as_markdown(groups),
        "provenance": _fenced(origin),
    }
    tensorboard.start_session(hyperparameters(config), texts)


def hyperparameters(config: Train) -> dict[str, bool | int | float | str]:
    """What distinguishes one run from another, flat and plain: numbers, and each group's target and arguments.

    Left out are the options that change only what is kept and shown, and a schedule's repetitions of `lr`.
    """
    flat: dict[str, bool | int | float | str] = {name: getattr(config, name) for name in HYPERPARAMETERS}
    for group in HYPERPARAMETER_GROUPS:
        node = dict(getattr(config, group))
        flat[group] = node.pop("_target_").rpartition(".")[2]
        for name, value in node.items():
            if value is not None and not (group == "scheduler" and value == config.lr):
                flat[f"{group}.{name}"] = value if isinstance(value, bool | int | float | str) else json.dumps(value)
    return flat


def _fenced(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2)}\n```"


def _announce(splits: Splits, train: DataLoader, device: torch.device, run_dir: Path) -> None:
    where = f"in the memory of {device}" if train.in_memory else "gathered by worker processes"
    log.info("run folder %s", run_dir)
    sizes = f"{len(splits.train)} train, {len(splits.valid)} valid, {len(splits.test)} test"
    log.info("data %s: %s, %s", splits.name, sizes, where)
    if splits.validates_on_test:
        log.warning("data.valid=test: validation runs on the test set, so no number here was measured on data kept aside")

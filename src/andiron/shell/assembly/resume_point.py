"""The checkpoint that a run resumes from, checked against the new configuration."""

import dataclasses
import logging
import math
from collections.abc import Collection
from pathlib import Path

from andiron import errors
from andiron.checkpoint import Checkpoint, Store, contents, directory, strategies
from andiron.checkpoint.checkpointer import KEPT_WITH_IT
from andiron.checkpoint.on_disk import manifest
from andiron.learner import Learner
from andiron.learner.extras import state_format
from andiron.options import LearnerOptions
from andiron.plain.plain_values import Named, Plain
from andiron.shell.assembly import (
    components, configured_learner, configured_store, targets,
)  # fmt: skip
from andiron.shell.assembly.components import Components
from andiron.shell.config.leaves import Changes
from andiron.shell.config.schema import LATER, Train

Saved = tuple[Path, Checkpoint]
BATCHING = ("batch_size", "grads_accumulation")  # determine the updates in an epoch
log = logging.getLogger("andiron")


def newest(checkpoints: Store, run: str | None = None) -> Saved:
    """The newest intact checkpoint of this `run`.

    Raises: DataError if there is none, or its values are invalid.
    """
    path, unchecked = directory.newest_whole(checkpoints, run)
    state = state_format.checked(unchecked.state, unchecked.place(contents.STATE))
    return path, dataclasses.replace(unchecked, state=state)


def check(config: Train, built: Components, saved: Checkpoint, changes: Changes) -> None:
    """Refuses a checkpoint from which the run cannot resume as configured.

    Raises: ConfigError if it is beyond the configured end, or if the learning rate depends on a
    number of updates that the changes alter.
    """
    _check_length(config, saved.state)
    before = saved.state.get("batch_size", config.batch_size)
    seen = saved.state["epoch"] * built.train.num_items + saved.state["batch"] * before
    _check_later(changes, seen)
    _check_horizon(config, built, changes)


def resume(
    learner: Learner, config: Train, saved: Saved, changes: Changes, *, is_fork: bool = False
) -> None:
    """Loads the checkpoint into the learner of the same run, or of a fork.

    Raises: ConfigError if the checkpoint has another model, other groups or other metrics.
    """
    path, stored = saved
    # checkpoints of earlier versions have no batch size
    batch_size, _ = changes.get("batch_size", (config.batch_size, None))
    state = {"batch_size": batch_size, **stored.state}
    stored = dataclasses.replace(stored, state=state)
    with targets.refusals_named(str(path)):
        if is_fork:
            learner.load(stored)
        else:
            learner.resume((path, stored))
    learner.position.seed = config.seed
    if reason := learner.early_stopping.decision:
        log.warning("the run stopped early: %s; change early_stopping to train on", reason)


def _check_later(changes: Changes, seen: int) -> None:
    """Refuses changes of the data before the first `seen` samples, which the run trained on."""
    for name, (_, now) in changes.items():
        if name.startswith(f"data.{LATER}.") and int(name.split(".")[2]) < seen:
            raise errors.ConfigError(
                f"{name}={now}: the run has trained on {seen} samples; leave what is recorded, and "
                "give a later one"
            )


def _check_length(options: LearnerOptions, state: Named) -> None:
    epoch, batch, updates = state["epoch"], state["batch"], state["updates"]
    for option, length, reached, completed in (
        ("num_epochs", options.num_epochs, epoch + (batch > 0),
         f"{epoch} epochs and {batch} batches"),
        ("num_updates", options.num_updates, updates, f"{updates} updates"),
    ):
        if length is not None and length < reached:
            raise errors.ConfigError(
                f"{option}={length}: the run has completed {completed}; give at least as many, or "
                "leave it out"
            )


def _check_horizon(config: Train, built: Components, changes: Changes) -> None:
    """Refuses another number of updates in an epoch if the learning rate depends on it."""
    before = {name: changes[name][0] for name in BATCHING if name in changes}
    if not before:
        return
    recorded = dataclasses.replace(config, **before)
    batches = math.ceil(len(built.splits.train) / recorded.batch_size)
    horizons = components.horizons(recorded, batches)
    schedule = targets.build_schedule("scheduler", config.scheduler, **horizons)
    if built.optimizer.schedules or any(
        schedule(update) != built.schedule(update) for update in range(horizons["num_updates"])
    ):
        names = ", ".join(before)
        raise errors.ConfigError(
            f"{names}: the schedule was built for {horizons['updates_per_epoch']} updates an "
            f"epoch, not {built.updates_per_epoch}; leave it, or resume with "
            f"scheduler=constant and resume_allow=[{names}, scheduler]"
        )


def state_of(folder: Path) -> Plain:
    """The checked state in the folder of a checkpoint.

    Raises: DataError.
    """
    file = folder / contents.STATE
    return state_format.checked(manifest.read_json(file), str(file))


def best(
    config: Train, offered: Named, newest: Path, names: Collection[str]
) -> tuple[strategies.Saved | None, str]:
    """The best of the checkpoints `names`, and the average that was measured ("" if none).

    `newest` is the folder of the newest one; metrics are built of the facts `offered`.
    """
    metrics = configured_learner.measured(config.metrics, offered).values()
    strategy = configured_store.checkpointing(config.checkpoint or {}, metrics).strategy
    listed = map(strategies.Saved.from_plain, state_of(newest).get(KEPT_WITH_IT, []))
    present = [saved for saved in listed if saved.name in names]
    return strategies.best(strategy, present), strategies.judged_average(strategy)

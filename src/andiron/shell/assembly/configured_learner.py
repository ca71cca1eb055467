"""The configured learner, from built components."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.checkpoint import contents
from andiron.data.dataset import Dataset
from andiron.interrupter import Interrupter
from andiron.learner import EarlyStopping, Learner, LearnerBuilder
from andiron.learner.extras.observers import Observer
from andiron.learner.run_host import NoHost, RunHost
from andiron.metrics.direction import by_split, directions_of
from andiron.optim.own import averaging
from andiron.plain import improvement
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Metric, Renderer, Writer
from andiron.run_folder import RunFolder
from andiron.shell.assembly import configured_store, targets
from andiron.shell.assembly.components import Components
from andiron.shell.assembly.grouped_optimizer import gradient_transformations
from andiron.shell.cli import answers
from andiron.shell.config.schema import Node, Nodes, Train
from andiron.shell.run import run_record


def learner(
    config: Train,
    built: Components,
    run_dir: Path,
    writers: Mapping[str, Writer] | None = None,
    *,
    interrupter: Interrupter | None = None,
    host: RunHost | None = None,
) -> Learner:
    """The learner of `built`, with the configured metrics, averages, checkpoints and options."""
    metrics = [*measured(config.metrics, built.splits.offered).values()]
    _check_samples(metrics, built.splits.valid)
    training = [metric for metric in metrics if not getattr(metric, "validation_only", False)]
    sets = "valid", *built.splits.more
    _check_objectives(config.objective, by_split(training, metrics, sets, config.averages or {}))
    builder = (
        LearnerBuilder(run_dir)
        .renderer(_renderer(config, run_dir))
        .hosted(host or NoHost())
        .metric_train_numeric(*training)
        .metric_valid_numeric(*metrics)
        .devices([built.device])
        .options(config)
        .world(built.world)
        .averages(**_averages(config, built))
        .early_stopping(**_stopping_rules(config, built, metrics))
        .observers(**_observers(config, model=built.model, run_dir=run_dir))
        .gradient_transforms(*gradient_transformations("gradients", config.gradients))
        .with_writers(**(writers or {}))
    )
    _add_sets(builder, config.valid_sets_every or {}, built.splits.more)
    if interrupter is not None:
        builder.interrupter(interrupter)
    if config.checkpoint:
        saving = configured_store.checkpointing(config.checkpoint, metrics)
        folder = RunFolder(run_dir)
        run = run_record.identity(folder) if run_record.holds_run(folder) else None
        builder.with_file_checkpointer(saving.strategy, saving.cadence, saving.store, run)
    return builder.build(built.model, built.optimizer, built.schedule)


def _renderer(config: Train, run_dir: Path) -> Renderer | None:
    if not config.render or answers.are_asked():
        return None
    return targets.build_instance(
        "render", config.render, Renderer, "an object with start, epoch_ended, stop and show",
        run_dir=run_dir,
    )  # fmt: skip


def measured(nodes: Nodes, offered: Named) -> Plain:
    """The configured metrics by name; `offered` are facts of the data."""
    return targets.build_each(
        "metrics", nodes, Metric, "an object with name, higher_is_better and a call with the item; "
        "andiron.metrics.Mean and andiron_lab.scores.Torchmetrics wrap others", **offered
    )  # fmt: skip


def _check_samples(metrics: Sequence[object], dataset: Dataset) -> None:
    for metric in metrics:
        if check := getattr(metric, "check_batch", None):
            check(dataset.__getitems__([0]))


def _add_sets(builder: LearnerBuilder, cadences: Named, sets: Collection[str]) -> None:
    """Adds the further validation sets, with their cadence.

    Raises: ConfigError for a cadence of a set that the data do not have.
    """
    there = f"the data have {', '.join(sets) or 'no further validation sets'}"
    problems = [
        f"valid_sets_every.{name}: no such validation set{errors.nearest(name, sets)}; {there}"
        for name in cadences
        if name not in sets
    ]
    if problems:
        raise errors.ConfigError(problems)
    for name in sets:
        builder.valid_set(name, every=cadences.get(name))


def writer(name: str, node: Node, folder: RunFolder) -> Writer:
    """A configured writer, whose constructor may take `run_dir`, or the path of its kind.

    Raises: ConfigError if the node gives no writer.
    """
    places = {"run_dir": folder.path, "path": folder.metrics, "folder": folder.tensorboard}
    instance: Writer = targets.build_instance(
        f"writers.{name}", node, Writer, "an object with write(point) and close()", **places
    )
    return instance


def _check_objectives(
    objectives: str | list[str] | None, measured: Mapping[str, Sequence[Any]]
) -> None:
    """Refuses an objective that no run of the sweep measures; `measured` is by split.

    Raises: ConfigError.
    """
    for objective in [objectives] if isinstance(objectives, str) else objectives or []:
        split, metric = improvement.split_and_metric(objective)
        if improvement.direction_of(metric, directions_of(measured.get(split, []))) is None:
            names = [f"{part}/{name}" for part in measured
                     for name in directions_of(measured[part])]  # fmt: skip
            hint = errors.nearest(objective, names)
            raise errors.ConfigError(
                f"objective={objective}: not measured{hint}; available: {', '.join(names)}"
            )


def _stopping_rules(
    config: Train, built: Components, metrics: Sequence[object]
) -> dict[str, EarlyStopping]:
    nodes = targets.in_updates(config.early_stopping or {}, built.updates_per_epoch)
    takes = "an andiron.learner.EarlyStopping; a rule of your own is an observer: docs/observers.md"
    return {
        name: targets.build_instance(
            f"early_stopping.{name}", node, EarlyStopping, takes,
            direction=configured_store.direction(node, metrics),
        )
        for name, node in nodes.items()
    }  # fmt: skip


def _observers(config: Train, **offered: object) -> dict[str, Observer]:
    """The configured observers, whose constructors may take `model`, the task, and `run_dir`."""
    return targets.build_each(
        "observers", config.observers, Observer,
        "an object with after_update(learner, step) or after_validation(learner, step)", **offered
    )  # fmt: skip


def _averages(config: Train, built: Components) -> dict[str, averaging.Rule]:
    nodes = targets.in_updates(config.averages or {}, built.updates_per_epoch)
    if unfit := [name for name in nodes if not contents.is_own(contents.AVERAGE.format(name))]:
        raise errors.ConfigError(
            f"averages.{name}: is part of a file name and cannot contain a slash; rename it"
            for name in unfit
        )
    rules = targets.build_each(
        "averages", nodes, averaging.Rule, "an object with weight(updates, count)"
    )
    idle = [
        name
        for name, rule in rules.items()
        if all(rule.weight(update, 0) is None for update in range(built.num_updates, 0, -1))
    ]
    if idle and not config.debug:
        raise errors.ConfigError(
            f"averages.{name}: no weights enter it in the {built.num_updates} updates of this run; "
            "start earlier, or train for longer" for name in idle
        )
    return rules

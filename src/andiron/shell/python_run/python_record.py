"""The record of a run that Python code built, instead of a configuration.

config.json gets the options and, as `_target_` and arguments, each component that can be made
again; the others are described, with the reason, below `from_python`. code.py is a copy of the
code.
"""

import dataclasses
import json
import linecache
import sys
from collections.abc import Collection, Mapping
from typing import Any

from torch import nn

from andiron import recording
from andiron.checkpoint import KeepBest, KeepLast, checkpointing
from andiron.checkpoint.strategies import Strategy, rules_of
from andiron.data.splitting import described
from andiron.learner.construction import Choices
from andiron.optim import Group
from andiron.optim.owners import group_table
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Loader, batch_size_of, network_of
from andiron.recording import NotRecordedError
from andiron.schedules.schedule import Schedule, stateful
from andiron.shell.config import leaves
from andiron.shell.config.schema import FROM_PYTHON
from andiron.shell.run.metadata import Record

MOST_CODE = 2**20  # bytes of code.py


@dataclasses.dataclass(frozen=True)
class Built:
    """The components of a learner: the choices of its builder, and what `build` was given."""

    chosen: Choices
    model: nn.Module
    groups: Mapping[str, Group]
    schedule: Schedule  # one of torch: as it was before the first update
    built_at: str
    code: str


def caller() -> tuple[str, str]:
    """The place and the text of the code that called Andiron; no text if it is in no file.

    The text is that of a script or a module, or of all cells of a notebook so far.
    """
    frame = sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("andiron."):
        frame = frame.f_back
    file = frame.f_code.co_filename
    shell = frame.f_globals.get("get_ipython")
    if shell is not None:
        cells = enumerate(frame.f_globals.get("In", []))
        text = "\n\n".join(f"# In [{number}]\n{cell}" for number, cell in cells if cell)
        return f"a notebook, In [{shell().execution_count}]", text
    return f"{file}:{frame.f_lineno}", "".join(linecache.getlines(file, frame.f_globals))


class _Components:
    """The nodes of components that can be made again, and the descriptions of the others."""

    def __init__(self) -> None:
        self.nodes: dict[leaves.Path, object] = {}
        self.missing: dict[str, dict[str, str]] = {}

    def add(self, option: str, value: object, leave_out: Collection[str] = ()) -> None:
        """Records the component, without its arguments `leave_out`."""
        try:
            node = recording.node_of(value, leave_out)
        except NotRecordedError as error:
            self.missing[option] = recording.described(value) | {"reason": str(error)}
            return
        path = tuple(option.split(".", 1))
        self.nodes[path] = {"_target_": node} if isinstance(node, str) else node

    def add_task(self, task: nn.Module) -> None:
        """Records a task, and its network and its loss apart, as a configuration does."""
        self.add("task", task, ("network", "loss"))
        if "task" in self.missing:
            network = recording.described(network_of(task))
            self.missing["model"] = network | {"reason": self.missing["task"]["reason"]}
            return
        parts = recording.arguments_of(task)
        for option, name in (("model", "network"), ("loss", "loss")):
            if parts.get(name) is not None:
                self.add(option, parts[name])


def config_of(built: Built, train: object) -> Plain:
    """The content of config.json; `train` is the loader of the training data."""
    chosen, components = built.chosen, _Components()
    components.add_task(built.model)
    components.add("scheduler", built.schedule)
    _add_others(components, chosen, train)
    every = {name: chosen.cadences[name] for name in chosen.sets}
    optimizers = {name: _optimizer_node(group) for name, group in built.groups.items()}
    nodes = [*optimizers.values()]
    single = {"optimizer": nodes[0]} if len(nodes) == 1 else {}
    entry = {
        "built_at": built.built_at,
        "not_recorded": components.missing,
        "optimizers": {} if single else optimizers,
        "rates": {} if single else _rates(built),
        "loader": _loader_options(train),
    }
    known = {
        "valid_sets_every": every or None,
        "lr": _rate(built.schedule),
        "batch_size": batch_size_of(train),
    }
    return {
        FROM_PYTHON: entry,
        **dataclasses.asdict(chosen.options),
        "device": str(chosen.device),
        **{name: value for name, value in known.items() if value is not None},
        **leaves.nested(components.nodes),
        **single,
    }


def _add_others(components: _Components, chosen: Choices, train: object) -> None:
    """Adds metrics, averages, rules, transformations, the checkpoint strategy and the data."""
    metrics = (*chosen.train_metrics, *chosen.valid_metrics)
    named: dict[str, Named] = {
        "metrics": {metric.name: metric for metric in metrics},
        "averages": chosen.averages,
        "early_stopping": chosen.early_stopping,
        "gradients": {str(number): part for number, part in enumerate(chosen.transforms)},
    }
    for group, parts in named.items():
        for name, value in parts.items():
            components.add(f"{group}.{name}", value)
    if chosen.strategy is not None:
        components.add("checkpoint", _as_configured(chosen.strategy))
    if chosen.data is None:
        reason = "the builder was not given it: LearnerBuilder(...).data(splits)"
        kind = recording.described(train)["class"]
        components.missing["data"] = {"class": kind, "reason": reason}
    else:
        components.add("data", chosen.data)


def record(built: Built, train: Loader, **of_resume: Any) -> Record:
    """The facts for the record, with a copy of the code; `train` is the training data's loader."""
    chosen, code_file = built.chosen, built.chosen.folder.code
    splits = chosen.data or described.of_loader(train)
    content = built.code.encode(errors="backslashreplace")[:MOST_CODE]
    others = {code_file: content} if content else {}
    plain, groups = config_of(built, train), _groups(built)
    facts = plain, splits, chosen.device, groups, chosen.world.size
    return Record(*facts, others=others, **of_resume)


def _groups(built: Built) -> Plain:
    rates = {name: _group_rate(group, built.schedule) for name, group in built.groups.items()}
    return group_table.param_groups(built.groups, rates, built.schedule)


def _loader_options(train: object) -> dict[str, object]:
    """The options by which a loader chooses samples, under the names of a configuration's."""
    facts = dict(getattr(train, "recorded", {}))
    nodes = []
    for part in facts.pop("augmentation", ()):
        try:
            nodes.append(recording.node_of(part))
        except NotRecordedError:
            nodes.append(recording.described(part)["class"])
    return {"seed": facts, "augmentation": nodes} if facts else {}


def _rate(schedule: Schedule) -> float | None:
    """The rate of the first update; None if a call could change the schedule's state."""
    return None if stateful(schedule) else schedule(0)


def _rates(built: Built) -> dict[str, object]:
    """The first rate and the schedule of each group."""
    keys = ["schedule"] if stateful(built.schedule) else ["lr", "schedule"]
    return {name: {key: group[key] for key in keys} for name, group in _groups(built).items()}


def _group_rate(group: Group, whole: Schedule) -> float | None:
    rate = _rate(getattr(group.schedule, "at_start", group.schedule) or whole)
    return None if rate is None or group.optimizer is None else rate * group.lr_scale


def _as_configured(strategy: Strategy) -> object:
    """The call that configures such a strategy, which other commands read; or the strategy."""
    match rules_of(strategy):
        case [KeepLast(last)]:
            return recording.call(checkpointing, last=last, metric=None)
        case [KeepLast(last), KeepBest(metric, split, direction, number)]:
            followed: Any = {"metric": metric, "split": split, "direction": direction}
            return recording.call(checkpointing, last=last, **followed, best=number)
    return strategy


def _optimizer_node(group: Group) -> dict[str, object]:
    """The class and the options of a group's optimizer; {} if it is frozen."""
    if group.optimizer is None:
        return {}
    options = {name: value for name, value in group.options.items() if value is not None}
    return {"_target_": group.optimizer.name, **json.loads(json.dumps(options, default=str))}

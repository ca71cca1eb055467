"""The record of a run started from Python: its options, and the task that it makes again.

config.json then has the entry `from_python`, and only those components that can be made again.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from andiron import errors
from andiron.options import LearnerOptions
from andiron.plain.plain_values import Named, Plain
from andiron.shell.assembly import network, targets
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.config import former_options, schema
from andiron.shell.config.schema import FROM_PYTHON, INSTRUCTIONS, MOST_TEXT, Train
from andiron.shell.config.trust import Trust
from andiron.shell.config.violations import fields_of

BUILT = ("data", "task", "model", "loss", "metrics", "checkpoint")  # by commands that use a run
USED = {field.name for field in dataclasses.fields(LearnerOptions)} | {*BUILT, "batch_size"}
USED |= {"device", "valid_sets_every"}


@dataclass(frozen=True)
class Unrecorded:
    """The components that cannot be made again, and why, by option; `built_at` is their code."""

    built_at: str
    reasons: Mapping[str, str]


def parsed(path: Path, plain: Named, trust: Trust) -> tuple[Train, Unrecorded]:
    """The configuration in config.json; a component that is not on record is {}, a rate NaN.

    The file is untrusted: what commands build from it may name only what `trust` allows.
    Raises: ConfigError naming every wrong value, and every refused name.
    """
    recorded = former_options.current(
        {name: plain[name] for name in plain if name not in (FROM_PYTHON, *INSTRUCTIONS)}
    )
    trust.check({name: recorded[name] for name in BUILT if name in recorded})
    used = {name: recorded[name] for name in recorded if name in USED}
    problems = schema.problems(used).items()  # also about the options that are not used
    lines = [line for option, line in problems if option.partition(".")[0] in used]
    options = fields_of(Train).parameters
    unknown = [name for name in recorded if name not in options]
    if lines or unknown:
        lines += [f"{name}: no such option" for name in unknown]
        raise errors.ConfigError(f"{path}: {line}" for line in lines)
    empty: Plain = {name: {} for name in options if options[name].is_required}
    return Train(**{**empty, "lr": math.nan, **recorded}), _unrecorded(plain[FROM_PYTHON])


def task_of(config: Train, most: SizeLimit, model: nn.Module | None = None) -> nn.Module:
    """The task of a run started from Python, from its record alone; its network may be given.

    Its arguments are on record as the code gave them, so no fact of the data fills one in.
    Raises: ConfigError.
    """
    if model is None and config.model:
        with network.weights_counted(config.model, most):
            model = targets.build("model", config.model)
    parts = ({} if model is None else {"network": model}) | network.loss_argument(config)
    with network.weights_counted(config.task, most):
        task: nn.Module = targets.build("task", config.task, **parts)
    return task


def _unrecorded(entry: object) -> Unrecorded:
    """The entry `from_python`, of which a stranger may have written anything."""
    entry = entry if isinstance(entry, Mapping) else {}
    missing = entry.get("not_recorded")
    reasons = {
        str(option): str(component.get("reason"))[:MOST_TEXT]
        for option, component in (missing.items() if isinstance(missing, Mapping) else ())
        if isinstance(component, Mapping)
    }
    return Unrecorded(str(entry.get("built_at"))[:MOST_TEXT], reasons)

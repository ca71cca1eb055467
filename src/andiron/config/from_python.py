"""The configuration of a run started from Python: its options, and what its code was made of.

config.json then has the entry `from_python`, and only those components that can be made again.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.config import schema
from andiron.config.schema import FROM_PYTHON, INSTRUCTIONS, Train
from andiron.config.trust import Trust
from andiron.plain.options import LearnerOptions

BUILT = ("data", "task", "model", "loss", "metrics", "checkpoint")  # by commands that use a run
OPTIONS = {field.name for field in dataclasses.fields(Train)}
USED = {field.name for field in dataclasses.fields(LearnerOptions)} | {*BUILT, "batch_size"}
USED |= {"device", "valid_sets_every", "valid_sets_metrics"}
MOST_TEXT = 500  # characters of a recorded text in a message


@dataclass(frozen=True)
class Unrecorded:
    """The components that cannot be made again, and why, by option; `built_at` is their code."""

    built_at: str
    reasons: Mapping[str, str]

    def reason(self, option: str) -> str:
        """Why a component is not on record."""
        return self.reasons.get(option, "it is not on record")


def parsed(path: Path, plain: Mapping[str, Any], trust: Trust) -> tuple[Train, Unrecorded]:
    """The configuration in config.json, without the components that are not on record: {}.

    The file is untrusted: what commands build from it may name only what `trust` allows.
    Raises: ConfigError naming every wrong value, and every refused name.
    """
    recorded = {name: plain[name] for name in plain if name not in (FROM_PYTHON, *INSTRUCTIONS)}
    trust.check({name: recorded[name] for name in BUILT if name in recorded})
    used = {name: recorded[name] for name in recorded if name in USED}
    problems = schema.problems(used).items()  # also about the options that are not used
    lines = [line for option, line in problems if option.partition(".")[0] in used]
    unknown = [name for name in recorded if name not in OPTIONS]
    if lines or unknown:
        lines += [f"{name}: no such option" for name in unknown]
        raise errors.ConfigError(f"{path}: {line}" for line in lines)
    return filled(recorded), _unrecorded(plain[FROM_PYTHON])


def filled(recorded: Mapping[str, Any]) -> Train:
    """The configuration of these options; a component that is not among them is {}, a rate NaN."""
    required = [field.name for field in dataclasses.fields(Train) if field.default is MISSING]
    empty: dict[str, Any] = {name: {} for name in required if name in schema.NODE_GROUPS}
    return Train(**(empty | {"metrics": {}, "lr": math.nan} | dict(recorded)))


def built(config: Train) -> Train:
    """The configuration with only the components that commands build."""
    return dataclasses.replace(
        config, optimizer={}, scheduler={}, averages=None, early_stopping=None, gradients=None
    )


def _unrecorded(entry: Any) -> Unrecorded:
    """The entry `from_python`, of which a stranger may have written anything."""
    entry = entry if isinstance(entry, Mapping) else {}
    missing = entry.get("not_recorded")
    reasons = {
        str(option): str(each.get("reason"))[:MOST_TEXT]
        for option, each in (missing.items() if isinstance(missing, Mapping) else ())
        if isinstance(each, Mapping)
    }
    return Unrecorded(str(entry.get("built_at"))[:MOST_TEXT], reasons)

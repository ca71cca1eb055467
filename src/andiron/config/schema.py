"""The typed shape of a run's configuration, its check, and its record as JSON."""

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from andiron import errors, files
from andiron.config import node_checks, rules, violations
from andiron.options import Clip

Node = dict[
    str, Any
]  # one `_target_` and its arguments; each is checked against its own dataclass in nodes.py
TARGET_GROUPS = ("data", "task", "loss", "model", "optimizer", "scheduler", "checkpoint", "render")
NAMED_GROUPS = (
    "metrics",
    "averages",
    "augmentation",
    "early_stopping",
)  # of several nodes, each under a name
PATH_ARGUMENTS = ("root", "path", "cache")  # of a data set


@dataclass(frozen=True, kw_only=True)
class Train:
    """One training run: what `conf/train.yaml` composes and what `config.json` records."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    data: Node
    task: Node
    model: Node
    optimizer: Node
    scheduler: Node
    metrics: dict[str, Any]  # a node each
    loss: Node | None = None
    checkpoint: Node | None = None
    render: Node | None = None
    param_groups: dict[str, Any] | None = (
        None  # rules, each checked against nodes.param_groups; the rest is the base's
    )
    averages: dict[str, Any] | None = None  # a node each, as in the next two
    augmentation: dict[str, Any] | None = None
    early_stopping: dict[str, Any] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 42
    num_epochs: Annotated[int, Field(ge=1)] = 10
    batch_size: Annotated[int, Field(ge=1)] = 64
    num_workers: Annotated[int, Field(ge=0)] = 0
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    grads_accumulation: Annotated[int, Field(ge=1)] = 1
    clip: Clip | None = None
    sam: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    compile: bool = False
    channels_last: bool = False
    activation_checkpointing: str | None = None
    start_from: str | None = None
    on_nonfinite: Literal["stop", "skip", "ignore"] = "stop"
    log_every: Annotated[int, Field(ge=1)] = 20
    histograms: bool = False
    overwrite: bool = False
    resume: str | None = None  # the run's own folder; or auto: whatever run hydra.run.dir holds
    resume_allow: list[str] = dataclasses.field(default_factory=list)
    interrupted_exit_code: Annotated[int, Field(ge=1, le=255)] | None = None

    def save(self, path: Path) -> None:
        """Writes the configuration to `path` as JSON that `load` reads back equal."""
        files.write_json(path, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: Path) -> "Train":
        """The configuration in the JSON file at `path`; missing fields take their defaults.

        Raises: ConfigError naming every unknown, missing or wrong value.
        """
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise errors.ConfigError([f"{path}: not JSON: {error}"]) from error
        if not isinstance(plain, dict):
            raise errors.ConfigError(
                [f"{path}: holds {type(plain).__name__}, not an object of options"]
            )
        found = problems(plain, cls)
        if found:
            raise errors.ConfigError(f"{path}: {problem}" for problem in found.values())
        return cls(**plain)


def with_absolute_paths(config: Train) -> Train:
    """The configuration with every path made absolute against the current directory."""
    start_from = config.start_from and os.path.abspath(config.start_from)
    return dataclasses.replace(config, data=_absolute(config.data), start_from=start_from)


def _absolute(node: Node) -> Node:
    """The node of a data set, or of one made of others, its paths made absolute."""
    made = {}
    for name, value in node.items():
        is_path = name in PATH_ARGUMENTS and isinstance(value, str)
        made[name] = (
            os.path.abspath(value)
            if is_path
            else _absolute(value)
            if isinstance(value, dict)
            else value
        )
    return made


def problems(plain: Mapping[str, Any], schema: type = Train) -> dict[str, str]:
    """Everything that is wrong with a composed configuration: a line for each option; empty when it is sound."""
    found = violations.found(schema, plain, prefix="")
    for group in TARGET_GROUPS:
        if isinstance(plain.get(group), dict):
            found |= node_checks.problems(group, plain[group])
    for group in NAMED_GROUPS:
        if isinstance(plain.get(group), dict):
            for name, node in plain[group].items():
                if isinstance(node, dict) and node and "_target_" not in node:
                    path = f"{group}.{name}"
                    found[path] = (
                        f"{path}: has options and no _target_; say {group}={name} too, or give it one"
                    )
                    continue
                found |= node_checks.problems(f"{group}.{name}", node)
    return found | rules.problems(plain)

"""The typed shape of a run's configuration, its check, and its record as JSON."""

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import Field

from andiron import errors
from andiron.config import nodes

Node = dict[str, Any]  # one `_target_` and its arguments; each is checked against its own dataclass in nodes.py
TARGET_GROUPS = ("data", "model", "optimizer", "scheduler", "checkpoint", "render")
PATH_ARGUMENTS = ("root",)  # of a data set
DEVICES = "auto, cpu, mps, cuda or cuda:<index>"


@dataclass(frozen=True, kw_only=True)
class Train:
    """One training run: what `conf/train.yaml` composes and what `config.json` records."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    data: Node
    model: Node
    optimizer: Node
    scheduler: Node
    metrics: dict[str, Any]  # a node each
    checkpoint: Node | None = None
    render: Node | None = None
    param_groups: None = None  # no rules yet: the one optimizer owns every parameter
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 42
    num_epochs: Annotated[int, Field(ge=1)] = 10
    batch_size: Annotated[int, Field(ge=1)] = 64
    num_workers: Annotated[int, Field(ge=0)] = 0
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    log_every: Annotated[int, Field(ge=1)] = 20
    overwrite: bool = False

    def save(self, path: Path) -> None:
        """Writes the configuration to `path` as JSON that `load` reads back equal."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")

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
            raise errors.ConfigError([f"{path}: holds {type(plain).__name__}, not an object of options"])
        found = problems(plain, cls)
        if found:
            raise errors.ConfigError(f"{path}: {problem}" for problem in found.values())
        return cls(**plain)


def with_absolute_paths(config: Train) -> Train:
    """The configuration with every path made absolute against the current directory."""
    paths = {name: os.path.abspath(config.data[name]) for name in PATH_ARGUMENTS if isinstance(config.data.get(name), str)}
    return dataclasses.replace(config, data=config.data | paths)


def problems(plain: Mapping[str, Any], schema: type = Train) -> dict[str, str]:
    """Everything that is wrong with a composed configuration: a line for each option; empty when it is sound."""
    found = _violations(schema, plain, prefix="")
    for group in TARGET_GROUPS:
        if isinstance(plain.get(group), dict):
            found |= _node_problems(group, plain[group])
    if isinstance(plain.get("metrics"), dict):
        for name, node in plain["metrics"].items():
            found |= _node_problems(f"metrics.{name}", node)
    return found


def _node_problems(path: str, node: Any) -> dict[str, str]:
    if not isinstance(node, dict):
        return {path: f"{path}={node}: should be an object"}
    target = node.get("_target_")
    if not isinstance(target, str):
        option = f"{path}._target_"
        return {option: f"{option}={target}: names no class or function; give its dotted name, such as torch.optim.Adam"}
    if target not in nodes.SCHEMAS:  # a user's own: its arguments are checked against its signature when it is built
        return {}
    arguments = {key: value for key, value in node.items() if key != "_target_"}
    return _violations(nodes.SCHEMAS[target], arguments, prefix=f"{path}.")


def _violations(schema: type, plain: Mapping[str, Any], prefix: str) -> dict[str, str]:
    names = [field.name for field in dataclasses.fields(schema)]
    try:
        # JSON and back: in strict mode a list is then accepted where a tuple is meant, and nothing else is bent
        pydantic.TypeAdapter(schema).validate_json(json.dumps(plain, default=str))
    except pydantic.ValidationError as error:
        by_option: dict[str, list[Any]] = {}  # a union complains once for every alternative
        for detail in error.errors():
            by_option.setdefault(str(detail["loc"][0]), []).append(detail)
        return {prefix + name: _line(details, prefix, names, plain) for name, details in by_option.items()}
    return {}


def _line(details: list[Any], prefix: str, names: list[str], plain: Mapping[str, Any]) -> str:
    name, *inner = details[0]["loc"]
    option = f"{prefix}{name}"
    if details[0]["type"] == "unexpected_keyword_argument":
        hint = errors.nearest(name, names) or f"; allowed here: {', '.join(names)}"
        return f"{option}: no such option{hint}"
    if details[0]["type"] == "missing" and not inner:
        return f"{option}: no value; give one as {option}=..."
    item = next((part for part in inner if isinstance(part, int)), None)
    if details[0]["type"] == "missing":
        return f"{option}={plain[name]}: item {item} is missing"
    allowed = " or ".join(dict.fromkeys(_allowed(detail) for detail in details))
    return f"{option}={plain[name]}: should be {allowed}" + ("" if item is None else f" (item {item})")


def _allowed(detail: Any) -> str:
    if detail["type"] == "string_pattern_mismatch":
        return DEVICES
    return str(detail["msg"]).removeprefix("Input should be ")

"""The objectives of a search and their directions, read from the configuration alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from andiron import errors
from andiron.plain import improvement
from andiron.shell.config.signatures import class_constant

Config = Mapping[str, Any]  # composed and plain
DIRECTIONS = {True: "highest", False: "lowest"}


@dataclass(frozen=True)
class Objective:
    """A metric such as `valid/accuracy`, and its direction: lowest or highest is best."""

    name: str
    direction: str


def objectives(config: Config, directions: Sequence[str] | None = None) -> list[Objective]:
    """The metrics of `objective`, or the metric that checkpoints follow, with their directions.

    `directions` overrides the directions of the metrics' classes.
    Raises: ConfigError if a direction is unknown.
    """
    names = names_of(config)
    if not names:
        why = "the checkpoints follow no metric either; give one, such as objective=valid/loss"
        raise errors.ConfigError(f"objective=null: {why}")
    if directions is not None and len(directions) != len(names):
        why = f"there are {len(names)} objectives; give a direction for each: {', '.join(names)}"
        raise errors.ConfigError(f"hydra.sweeper.directions={list(directions)}: {why}")
    metrics = config.get("metrics") or {}
    known = {name: DIRECTIONS[is_higher] for name, node in metrics.items()
             if (is_higher := _higher_is_better(node)) is not None}  # fmt: skip
    chosen: Sequence[str | None] = directions or [
        improvement.direction_of(improvement.split_and_metric(name)[1], known)
        for name in names
    ]
    unknown = [name for name, direction in zip(names, chosen, strict=True) if direction is None]
    if unknown:
        raise errors.ConfigError(
            f"objective={name}: no metric of the configuration that says which value is best; "
            f"there is: {', '.join(f'valid/{key}' for key in known)}; choose one, give its class "
            "higher_is_better, or to hydra/sweeper=optuna hydra.sweeper.directions=[highest]"
            for name in unknown
        )
    return [Objective(name, str(best)) for name, best in zip(names, chosen, strict=True)]


def names_of(config: Config) -> list[str]:
    """The metrics of `objective`, or the metric that checkpoints follow; empty if none."""
    names = config.get("objective")
    if names is not None:
        return [names] if isinstance(names, str) else list(names)
    followed = config.get("checkpoint") or {}
    metric = followed.get("metric")
    return [f"{followed['split']}/{metric}"] if metric else []


def _higher_is_better(node: object) -> bool | None:
    """`higher_is_better` of a metric's node, or of the metric that it wraps; None if neither."""
    if not isinstance(node, Mapping):
        return None
    if isinstance(node.get("higher_is_better"), bool):
        return bool(node["higher_is_better"])
    is_higher = class_constant(str(node.get("_target_")), "higher_is_better")
    return is_higher if isinstance(is_higher, bool) else _higher_is_better(node.get("metric"))

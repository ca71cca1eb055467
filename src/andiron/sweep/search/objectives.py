"""What a search optimizes, and which way, as the configuration says: nothing is built for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from andiron import errors
from andiron.config.signatures import class_constant
from andiron.plain import improvement

Config = Mapping[str, Any]  # composed and plain
BEST = {True: "highest", False: "lowest"}


@dataclass(frozen=True)
class Objective:
    """A metric, as `valid/accuracy`, and which value of it is best: lowest or highest."""

    name: str
    direction: str


def objectives(config: Config, directions: Sequence[str] | None = None) -> list[Objective]:
    """The metrics of `objective`, or that which checkpoints follow, each with its direction.

    `directions` says it in their order where the classes of the metrics do not.
    Raises: ConfigError if a direction is not known.
    """
    names = _names(config)
    if directions is not None and len(directions) != len(names):
        why = f"there are {len(names)} objectives; give a direction for each: {', '.join(names)}"
        raise errors.ConfigError([f"hydra.sweeper.directions={list(directions)}: {why}"])
    metrics = config.get("metrics") or {}
    known = {name: BEST[best] for name, node in metrics.items()
             if (best := _higher_is_better(node)) is not None}  # fmt: skip
    found: Sequence[str | None] = directions or [
        improvement.direction_of(improvement.split_and_metric(name)[1], known)
        for name in names
    ]
    unknown = [name for name, direction in zip(names, found, strict=True) if direction is None]
    if unknown:
        raise errors.ConfigError(
            f"objective={name}: no metric of the configuration that says which value is best; "
            f"there is: {', '.join(f'valid/{each}' for each in known)}; choose one, give its class "
            "higher_is_better, or to hydra/sweeper=optuna hydra.sweeper.directions=[highest]"
            for name in unknown
        )
    return [Objective(name, str(each)) for name, each in zip(names, found, strict=True)]


def _names(config: Config) -> list[str]:
    given = config.get("objective")
    if given is not None:
        return list(given) if isinstance(given, list) else [given]
    followed = config.get("checkpoint") or {}
    if not followed.get("metric"):
        why = "the checkpoints follow no metric either; give one, such as objective=valid/loss"
        raise errors.ConfigError([f"objective=null: {why}"])
    return [f"{followed['split']}/{followed['metric']}"]


def _higher_is_better(node: Any) -> bool | None:
    """What the metric of a node says, or that which it wraps; None if neither does."""
    if not isinstance(node, Mapping):
        return None
    if isinstance(node.get("higher_is_better"), bool):
        return bool(node["higher_is_better"])
    found = class_constant(str(node.get("_target_")), "higher_is_better")
    return found if isinstance(found, bool) else _higher_is_better(node.get("metric"))

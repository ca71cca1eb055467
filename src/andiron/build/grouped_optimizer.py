"""The optimizers that a configuration asks for: one for each group of parameters."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from andiron import errors
from andiron.config import rules
from andiron.build import targets
from andiron.config.schema import Train
from andiron import randomness
from andiron.optim import ownership, transformations
from andiron.optim.grouped import Group, GroupedOptimizer
from andiron.optim.optimizer import Optimizer
from andiron.optim.ownership import BASE
from andiron.optim.match_rules import Match, Rule


def build(
    config: Train, model: nn.Module, *, num_updates: int, updates_per_epoch: int
) -> GroupedOptimizer:
    """The owners of `model`'s trainable parameters: the groups of `config.param_groups`, and the base with the rest.

    Raises: ConfigError with all that keeps the rules from giving each parameter one owner, or an optimizer from taking
    a parameter or an option.
    """
    nodes = targets.in_updates(_expanded(config.param_groups or {}, model), updates_per_epoch)
    owned = ownership.assign(model, {name: _rule(node) for name, node in nodes.items()})
    horizons = {"num_updates": num_updates, "updates_per_epoch": updates_per_epoch}
    groups: list[Group] = []
    problems: list[str] = []
    for name, parameters in owned.items():
        try:
            groups.append(_group(name, nodes.get(name, {}), parameters, config, model, horizons))
        except errors.ConfigError as error:
            problems += error.problems
    if problems:
        raise errors.ConfigError(problems)
    if not any(group.optimizer for group in groups):
        frozen = (
            "the groups freeze all of it; leave something to train"
            if groups
            else "choose a model that has some"
        )
        raise errors.ConfigError(
            [f"model._target_={config.model['_target_']}: no parameter to train: {frozen}"]
        )
    return GroupedOptimizer(model, groups)


def _expanded(groups: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """The rules by group name, those that a function makes of the model among them."""
    found: dict[str, Any] = {}
    for name, node in groups.items():
        found |= (
            targets.build(f"param_groups.{name}", node, model=model)
            if "_target_" in node
            else {name: node}
        )
    return found


def _rule(node: Mapping[str, Any]) -> Rule:
    return Rule(
        _match(node["match"]), _match(node["exclude"]) if node.get("exclude") is not None else None
    )


def _match(match: str | Mapping[str, Any]) -> Match:
    if isinstance(match, str):
        return Match(name=match)
    several = {
        name: tuple(value) if isinstance(value, list | tuple) else (value,)
        for name, value in match.items()
        if name != "name" and value is not None
    }
    return Match(name=match.get("name"), **several)


def _group(
    name: str,
    node: Mapping[str, Any],
    parameters: dict[str, nn.Parameter],
    config: Train,
    model: nn.Module,
    horizons: Any,
) -> Group:
    scale = node["lr"] / config.lr if node.get("lr") is not None else node.get("lr_scale") or 1.0
    schedule = node.get("schedule") and targets.build_schedule(
        f"param_groups.{name}.schedule", node["schedule"], **horizons
    )
    frozen = node.get("frozen", False)
    told = ("lr_scale", "clip", "every", "frozen", "schedule")
    return Group(
        name=name,
        parameters=parameters,
        optimizer=None
        if frozen is True
        else _optimizer(name, node, list(parameters), config, model),
        lr_scale=scale,
        schedule=schedule,
        transform=transformations.chained(
            [] if node.get("clip") is None else [transformations.from_clip(node["clip"])],
            randomness.derive(config.seed, f"param_groups.{name}"),
        ),
        every=node.get("every", 1),
        frozen_updates=0 if isinstance(frozen, bool) else frozen,
        settings={key: node[key] for key in told if node.get(key) is not None},
    )


def _optimizer(
    name: str, node: Mapping[str, Any], names: list[str], config: Train, model: nn.Module
) -> Optimizer:
    option = "optimizer" if not node.get("optimizer") else f"param_groups.{name}.optimizer"
    chosen = node.get("optimizer") or config.optimizer
    name_of_class = chosen["_target_"]
    kind = targets.resolve(f"{option}._target_", name_of_class)
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        problem = f"{option}._target_={name_of_class}: not a torch.optim.Optimizer class"
        raise errors.ConfigError([problem])
    options = {key: value for key, value in chosen.items() if key != "_target_"}
    where = option if name == BASE else f"param_groups.{name}"
    try:
        return Optimizer(kind, model, names, **(options | rules.options(node)))
    except TypeError as error:
        problem = f"{where}: {kind.__name__} refuses its options: {error}"
        raise errors.ConfigError([problem]) from error
    except ValueError as error:
        raise errors.ConfigError([f"{where}: {error}"]) from error

"""The optimizers that a configuration names: one for each group of parameters."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from andiron import errors, randomness
from andiron.build import targets
from andiron.config import rules
from andiron.config.schema import Train
from andiron.optim import ownership, transformations
from andiron.optim.grouped import Group, GroupedOptimizer
from andiron.optim.match_rules import Match, Rule
from andiron.optim.optimizer import Optimizer
from andiron.optim.ownership import BASE
from andiron.optim.transformations import Transformation

SHOWN = ("clip", "gradients", "every", "frozen")  # in param_groups.json


def build(
    config: Train, model: nn.Module, *, num_updates: int, updates_per_epoch: int
) -> GroupedOptimizer:
    """The owners of `model`'s parameters: the groups of `config.param_groups`, and the base.

    Raises: ConfigError with everything that keeps a parameter from having one owner, or an
    optimizer from taking a parameter or an option.
    """
    nodes = targets.in_updates(_expanded(config.param_groups or {}, model), updates_per_epoch)
    owned = ownership.assign(model, {name: _rule(node) for name, node in nodes.items()})
    lengths = {"num_updates": num_updates, "updates_per_epoch": updates_per_epoch}
    groups: list[Group] = []
    problems: list[str] = []
    for name, parameters in owned.items():
        try:
            groups.append(_group(name, nodes.get(name, {}), parameters, config, model, lengths))
        except errors.ConfigError as error:
            problems += error.problems
    if not problems and not any(group.optimizer for group in groups):
        why = "the groups freeze all of it; leave something to train"
        remedy = why if groups else "choose a model that has some"
        problems = [f"model._target_={config.model['_target_']}: no parameter to train: {remedy}"]
    if problems:
        raise errors.ConfigError(problems)
    return GroupedOptimizer(model, groups)


def gradient_transformations(option: str, nodes: Mapping[str, Any] | None) -> list[Transformation]:
    """The transformations that the nodes name, in order.

    A node names a function of gradients, with its other arguments, or a function that makes one.
    """
    return [
        targets.build_function(f"{option}.{name}", node, num_given=1, named=("seed", "update"))
        for name, node in (nodes or {}).items()
    ]


def _expanded(groups: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """The rules by group name; a `_target_` among them makes several from the model."""
    found: dict[str, Any] = {}
    for name, node in groups.items():
        is_rule = "_target_" not in node
        option = f"param_groups.{name}"
        found |= {name: node} if is_rule else targets.build(option, node, model=model)
    return found


def _rule(node: Mapping[str, Any]) -> Rule:
    exclude = node.get("exclude")
    return Rule(_match(node["match"]), None if exclude is None else _match(exclude))


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
    lengths: Any,
) -> Group:
    option = f"param_groups.{name}"
    frozen = node.get("frozen", False)
    schedule, clip = node.get("schedule"), node.get("clip")
    chain = gradient_transformations(f"{option}.gradients", node.get("gradients"))
    chain += [] if clip is None else [transformations.from_clip(clip)]
    if schedule is not None:
        schedule = targets.build_schedule(f"{option}.schedule", schedule, **lengths)
    return Group(
        name=name,
        parameters=parameters,
        optimizer=None if frozen is True else _optimizer(name, node, [*parameters], config, model),
        lr_scale=_lr_scale(node, config.lr),
        schedule=schedule,
        transform=transformations.chained(chain, randomness.derive(config.seed, option)),
        every=node.get("every", 1),
        frozen_updates=0 if isinstance(frozen, bool) else frozen,
        settings={key: node[key] for key in SHOWN if node.get(key) is not None},
    )


def _lr_scale(node: Mapping[str, Any], lr: float) -> float:
    own: float | None = node.get("lr")
    scale: float | None = node.get("lr_scale")
    return own / lr if own is not None else scale or 1.0


def _optimizer(
    name: str, node: Mapping[str, Any], names: list[str], config: Train, model: nn.Module
) -> Optimizer:
    own = node.get("optimizer")
    option, chosen = (
        (f"param_groups.{name}.optimizer", own) if own else ("optimizer", config.optimizer)
    )
    target = chosen["_target_"]
    kind = targets.resolve(f"{option}._target_", target)
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        problem = f"{option}._target_={target}: not a torch.optim.Optimizer class"
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

"""The configured optimizers: one for each group of parameters."""

import importlib.util
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from andiron import errors, randomness, schedules
from andiron.optim import transformations
from andiron.optim.foreign import torch_class
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.optimizer import Optimizer
from andiron.optim.owners import ownership
from andiron.optim.owners.group import Group
from andiron.optim.owners.match_rules import Rule
from andiron.optim.owners.ownership import BASE
from andiron.plain.plain_values import Named, Plain
from andiron.schedules import Schedule
from andiron.shell.assembly import targets
from andiron.shell.config import node_checks, rules
from andiron.shell.config.schema import Train
from andiron.shell.config.signatures import shipped
from andiron.shell.run import lab_options

log = logging.getLogger("andiron")
SHOWN = ("clip", "gradients", "every", "frozen", "statistics", "adapter")  # in param_groups.json


def build(config: Train, model: nn.Module, schedule: Schedule, **lengths: int) -> GroupedOptimizer:
    """The owners of `model`'s parameters: the groups of `config.param_groups`, and the base.

    `schedule` is the run's.
    Raises: ConfigError listing every parameter without one owner, and every parameter or option
    that an optimizer refuses.
    """
    expanded = _expand_rules(config.param_groups or {}, model)
    nodes = targets.in_updates(expanded, lengths["updates_per_epoch"])
    adapters = lab_options.adapters(nodes)
    with targets.refusals_named("param_groups"):
        rules_by_name = {
            name: Rule(adapters.claim(name)) if node.get("adapter")
            else Rule.of(node["match"], node.get("exclude"))
            for name, node in nodes.items()
        }  # fmt: skip
        owned = ownership.assign(model, rules_by_name)
    groups = _groups(owned, nodes, config, model, schedule, lengths)
    if not any(group.optimizer for group in groups):
        why = "the groups freeze all of it; leave something to train"
        remedy = why if groups else "choose a model that has some"
        raise targets.refused("model", config.model, f"no parameter to train: {remedy}")
    _check_trained(groups, lengths["num_updates"])
    return GroupedOptimizer(model, groups)


def _groups(
    owned: Mapping[str, dict[str, nn.Parameter]], nodes: Named, config: Train, model: nn.Module,
    schedule: Schedule, lengths: dict[str, int],
) -> list[Group]:  # fmt: skip
    """The groups with their optimizers.

    Groups of one class of another package share one object, which begins with the base.
    Raises: ConfigError.
    """
    groups: dict[str, Group] = {}
    chosen: dict[Any, dict[str, Plain]] = {}  # options by class and group
    problems: list[str] = []
    for name in sorted(owned, key=lambda name: name != BASE):
        node = nodes.get(name, {})
        try:
            if node.get("frozen") is not True:
                kind, options = _chosen(name, node, config.optimizer)
                key = name if torch_class.is_own(kind) else None
                chosen.setdefault((kind, key), {})[name] = options | rules.options(node)
            groups[name] = _group(name, node, owned[name], config, schedule, lengths)
        except errors.ConfigError as error:
            problems += error.problems
    for (kind, _), options in chosen.items():
        try:
            names = [[*owned[name]] for name in options]
            optimizer = Optimizer.joint(kind, model, names, [*options.values()])
        except (TypeError, ValueError) as error:
            where = ", ".join("optimizer" if n == BASE else f"param_groups.{n}" for n in options)
            refuses = f"{kind.__name__} refuses its options: "
            problems.append(f"{where}: {refuses * isinstance(error, TypeError)}{error}")
            continue
        for number, name in enumerate(options):
            if name in groups:
                groups[name] = replace(groups[name], optimizer=optimizer, number=number)
    if problems:
        raise errors.ConfigError(problems)
    return [groups[name] for name in owned]


def _check_trained(groups: list[Group], num_updates: int) -> None:
    """Refuses groups if none is trained in the first update, or in the whole run.

    Raises: ConfigError.
    """
    trained = [group for group in groups if group.optimizer]
    if all(group.frozen_updates for group in trained):
        names = ", ".join(f"{group.name}.frozen={group.frozen_updates}" for group in trained)
        raise errors.ConfigError(
            f"param_groups.{names}: no parameter is trained in the first update; leave one group "
            "to train from there"
        )
    if all(group.every > num_updates for group in trained):
        names = ", ".join(f"{group.name}.every={group.every}" for group in trained)
        raise errors.ConfigError(
            f"param_groups.{names}: no parameter is trained in the {num_updates} updates of this "
            "run; lower it"
        )


def gradient_transformations(
    option: str, nodes: Named | None
) -> list[transformations.Transformation]:
    """The configured transformations, in order.

    A node names a function of gradients, with its other arguments, or a factory of one.
    """
    built = []
    for name, node in (nodes or {}).items():
        place, takes = f"{option}.{name}", "a function of the gradients, which gives gradients"
        function = targets.build_function(place, node, num_given=1, named=("seed", "update"))
        targets.check_kind(place, node, function, callable(function), takes)
        built.append(function)
    return built


def _expand_rules(groups: Named, model: nn.Module) -> Plain:
    """The rules by group name; a `_target_` among them creates several from the model."""
    expanded = {}
    takes = "a function of the model to rules by name"
    for name, node in groups.items():
        if "_target_" not in node:
            expanded[name] = node
            continue
        rules_of_model = targets.build(f"param_groups.{name}", node, model=model)
        are_rules = isinstance(rules_of_model, Mapping) and all(
            isinstance(value, Mapping) and "match" in value for value in rules_of_model.values()
        )
        targets.check_kind(f"param_groups.{name}", node, rules_of_model, are_rules, takes)
        expanded |= rules_of_model
    return expanded


def _group(
    name: str,
    node: Named,
    parameters: dict[str, nn.Parameter],
    config: Train,
    whole: Schedule,
    lengths: dict[str, int],
) -> Group:
    option = f"param_groups.{name}"
    frozen, own, clip, lr = map(node.get, ("frozen", "schedule", "clip", "lr"))
    schedule = own and targets.build_schedule(f"{option}.schedule", own, **lengths)
    lr_scale = node.get("lr_scale") or 1.0
    if lr is not None:
        with targets.refusals_named(f"{option}.lr={lr}"):
            peak = schedules.peak_rate(schedule or whole, lengths["num_updates"])
        lr_scale = lr / peak
        if schedule and peak not in (lr, config.lr):  # somebody gave the schedule a rate of its own
            log.warning("%s.lr=%g is used; %s.schedule, whose peak is %g, gives only the shape",
                        option, lr, option, peak)
    chain = gradient_transformations(f"{option}.gradients", node.get("gradients"))
    if clip is not None:
        chain.append(transformations.from_clip(clip))
    return Group(
        name=name,
        parameters=parameters,
        schedule=schedule,
        optimizer=None,
        lr_scale=lr_scale,
        transform=transformations.chained(chain, randomness.derive(config.seed, option)),
        every=node.get("every", 1),
        frozen_updates=0 if isinstance(frozen, bool) else frozen or 0,
        trains_statistics=node.get("statistics") == "train",
        settings={key: node[key] for key in SHOWN if node.get(key) is not None},
    )


def _chosen(name: str, node: Named, chosen: Named) -> tuple[Any, Plain]:
    """The class of a group's optimizer and its options.

    Raises: ConfigError.
    """
    option = "optimizer"
    if node.get("optimizer"):
        option, chosen = f"param_groups.{name}.optimizer", node["optimizer"]
    kind = targets.resolve(f"{option}._target_", chosen["_target_"])
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        raise targets.refused(option, chosen, "not a torch.optim.Optimizer class")
    needed = shipped().get(chosen["_target_"], {}).get("needs")
    if needed and importlib.util.find_spec(needed) is None:
        raise targets.refused(
            option, chosen, f"{kind.__name__} needs {needed}{targets.installation(needed)}"
        )
    return kind, node_checks.arguments_of(chosen)

"""The rules of parameter groups, checked before there is a model to apply them to."""

import dataclasses
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from andiron.config import node_checks, violations
from andiron.config.signatures import Parameter, Signature, fields_of, signature
from andiron.options import Clip
from andiron.ranges import Count, Horizon, Node, Positive


@dataclass(frozen=True, kw_only=True)
class ParamGroup:
    """A rule and its settings; `match` and `exclude` are a `Match`, or the text of its `name`."""

    match: str | dict[str, Any]
    exclude: str | dict[str, Any] | None = None
    optimizer: Node | None = None
    lr: Positive | None = None
    lr_scale: Positive | None = None
    schedule: Node | None = None
    clip: Clip | None = None
    gradients: dict[str, Node] | None = None  # transformations by name, in order
    every: Count = 1
    frozen: bool | Horizon = False  # for good, or until then


SETTINGS = {field.name for field in dataclasses.fields(ParamGroup)}


def options(rule: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a rule that are no settings of a group: options of the group's optimizer."""
    return {name: value for name, value in rule.items() if name not in SETTINGS}


def problems(plain: Mapping[str, Any]) -> dict[str, str]:
    """The mistakes in `param_groups` of a composed configuration, a line for each option."""
    groups = plain.get("param_groups") or {}
    found: dict[str, str] = {}
    for name, rule in groups.items() if isinstance(groups, Mapping) else ():
        path = f"param_groups.{name}"
        if not isinstance(rule, Mapping):
            found[path] = f"{path}={rule}: should be an object with a match"
        elif "_target_" in rule:
            found |= node_checks.problems(path, rule)
        else:
            found |= _rule_problems(path, rule, plain)
    return found


def _rule_problems(path: str, rule: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, str]:
    settings = {name: value for name, value in rule.items() if name in SETTINGS}
    found = violations.found(fields_of(ParamGroup), settings, prefix=f"{path}.")
    for name in ("match", "exclude"):
        if settings.get(name) is not None and f"{path}.{name}" not in found:
            found |= _match_problems(f"{path}.{name}", settings[name])
    inner = {name: settings.get(name) for name in ("optimizer", "schedule")}
    transforms = settings.get("gradients")
    if isinstance(transforms, Mapping):
        inner |= {f"gradients.{name}": node for name, node in transforms.items()}
    for name, node in inner.items():
        if isinstance(node, Mapping):
            found |= node_checks.problems(f"{path}.{name}", node)
    if settings.get("lr") is not None and settings.get("lr_scale") is not None:
        found[f"{path}.lr"] = (
            f"{path}.lr={settings['lr']}: lr_scale={settings['lr_scale']} is given too; give one "
            "of the two"
        )
    if settings.get("frozen") is True and settings.get("optimizer"):
        found[f"{path}.frozen"] = (
            f"{path}.frozen=True: a frozen group needs no optimizer; remove one of the two"
        )
    return found | _option_problems(path, rule, plain)


def _match_problems(path: str, match: str | Mapping[str, Any]) -> dict[str, str]:
    criteria = {"name": match} if isinstance(match, str) else match
    found = violations.found(_criteria(), criteria, prefix=f"{path}.")
    if not any(value not in (None, [], ()) for value in criteria.values()):
        names = ", ".join(_criteria().parameters)
        why = "names no criterion, and would claim every parameter"
        found[path] = f"{path}={match}: {why}; give one of {names}"
    try:
        re.compile(criteria.get("name") or "")
    except (re.error, TypeError) as error:
        found.setdefault(
            f"{path}.name", f"{path}.name={criteria['name']}: is no regular expression: {error}"
        )
    return found


@cache
def _criteria() -> Signature:
    """The criteria of `andiron.optim.Match`; one value may stand for a tuple of one."""
    found = signature("andiron.optim.Match")
    kinds = {name: each.kind for name, each in found.parameters.items()} if found else {}
    return Signature(
        {name: Parameter(kind | typing.get_args(kind)[0] | None) for name, kind in kinds.items()}
    )


def _option_problems(
    path: str, rule: Mapping[str, Any], plain: Mapping[str, Any]
) -> dict[str, str]:
    """The options beside the settings, checked against the group's optimizer."""
    node = rule.get("optimizer") or plain.get("optimizer")
    target = node.get("_target_") if isinstance(node, Mapping) else None
    if not isinstance(target, str):
        return {}
    return node_checks.argument_problems(target, options(rule), path)

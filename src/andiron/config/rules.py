"""What is wrong with the rules of parameter groups, before there is a model to hold them to."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from andiron.config import nodes, violations
from andiron.config.nodes.param_groups import Match, ParamGroup

SETTINGS = {field.name for field in dataclasses.fields(ParamGroup)}
NodeProblems = Callable[[str, Any], dict[str, str]]


def options(rule: Mapping[str, Any]) -> dict[str, Any]:
    """What in a rule is neither its match nor a setting of the group: options for the group's optimizer."""
    return {name: value for name, value in rule.items() if name not in SETTINGS}


def problems(plain: Mapping[str, Any], node_problems: NodeProblems) -> dict[str, str]:
    """Everything that is wrong with `param_groups` in a composed configuration, a line for each option."""
    groups = plain.get("param_groups") or {}
    found: dict[str, str] = {}
    for name, rule in groups.items() if isinstance(groups, Mapping) else ():
        path = f"param_groups.{name}"
        if not isinstance(rule, Mapping):
            found[path] = f"{path}={rule}: should be an object with a match"
        elif "_target_" in rule:
            found |= node_problems(path, rule)
        else:
            found |= _rule_problems(path, rule, plain, node_problems)
    return found


def _rule_problems(
    path: str, rule: Mapping[str, Any], plain: Mapping[str, Any], node_problems: NodeProblems
) -> dict[str, str]:
    settings = {name: value for name, value in rule.items() if name in SETTINGS}
    found = violations.found(ParamGroup, settings, prefix=f"{path}.")
    for name in ("match", "exclude"):
        if settings.get(name) is not None and f"{path}.{name}" not in found:
            found |= _match_problems(f"{path}.{name}", settings[name])
    for name in ("optimizer", "schedule"):
        if isinstance(settings.get(name), Mapping):
            found |= node_problems(f"{path}.{name}", settings[name])
    if settings.get("lr") is not None and settings.get("lr_scale") is not None:
        found[f"{path}.lr"] = (
            f"{path}.lr={settings['lr']}: lr_scale={settings['lr_scale']} is given too; give one of the two"
        )
    if settings.get("frozen") is True and settings.get("optimizer"):
        found[f"{path}.frozen"] = (
            f"{path}.frozen=True: what is never trained needs no optimizer; remove one of the two"
        )
    return found | _option_problems(path, rule, plain)


def _match_problems(path: str, match: str | Mapping[str, Any]) -> dict[str, str]:
    criteria = {"name": match} if isinstance(match, str) else match
    found = violations.found(Match, criteria, prefix=f"{path}.")
    if not any(value not in (None, [], ()) for value in criteria.values()):
        names = ", ".join(field.name for field in dataclasses.fields(Match))
        found[path] = (
            f"{path}={match}: names no criterion, and would claim every parameter; give one of {names}"
        )
    try:
        re.compile(criteria.get("name") or "")
    except (re.error, TypeError) as error:
        found.setdefault(
            f"{path}.name", f"{path}.name={criteria['name']}: is no regular expression: {error}"
        )
    return found


def _option_problems(
    path: str, rule: Mapping[str, Any], plain: Mapping[str, Any]
) -> dict[str, str]:
    """The options beside the settings, held to what the group's optimizer takes where that is known here."""
    node = rule.get("optimizer") or plain.get("optimizer")
    target = node.get("_target_") if isinstance(node, Mapping) else None
    if target not in nodes.SCHEMAS:
        return {}
    return violations.found(nodes.SCHEMAS[target], options(rule), prefix=f"{path}.")

"""The rules of parameter groups, checked before the model is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from andiron.options import Clip
from andiron.plain import patterns
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import Count, Node, Positive, Probability, Span
from andiron.shell.config import node_checks
from andiron.shell.config.signatures import Signature, signature
from andiron.shell.config.violations import Problems, fields_of, signature_problems


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A low-rank adapter (LoRA) on each layer that a rule matches: `alpha / rank` scales it."""

    rank: Count = 8
    alpha: Positive | None = None  # default: the rank
    dropout: Probability = 0.0  # of the adapter's inputs


@dataclass(frozen=True, kw_only=True)
class ParamGroup:
    """A rule and its settings; `match` and `exclude` are a `Match`, or the text of its `name`."""

    match: str | Plain
    exclude: str | Plain | None = None
    optimizer: Node | None = None
    lr: Positive | None = None
    lr_scale: Positive | None = None
    schedule: Node | None = None
    clip: Clip | None = None
    gradients: dict[str, Node] | None = None  # transformations by name, in order
    every: Count = 1
    frozen: bool | Span = False  # always, or until then
    adapter: Plain | None = None  # an `Adapter`: the group owns it, not the layers
    statistics: Literal["frozen", "train"] = "frozen"  # running ones, while the group is frozen


SETTINGS = fields_of(ParamGroup).parameters


def options(rule: Named) -> Plain:
    """The entries of a rule that are not group settings: options of the group's optimizer."""
    return {name: value for name, value in rule.items() if name not in SETTINGS}


def problems(plain: Named) -> Problems:
    """The mistakes in `param_groups` of a composed configuration, a line for each option."""
    groups = plain.get("param_groups") or {}
    lines = {}
    for name, rule in groups.items() if isinstance(groups, Mapping) else ():
        path = f"param_groups.{name}"
        if not isinstance(rule, Mapping):
            lines[path] = f"{path}={rule}: should be an object with a match"
        elif "_target_" not in rule:
            lines |= _rule_problems(path, rule) | _option_problems(path, rule, plain)
    return lines


def _rule_problems(path: str, rule: Named) -> Problems:
    settings = {name: value for name, value in rule.items() if name in SETTINGS}
    lines = signature_problems(fields_of(ParamGroup), settings, prefix=f"{path}.")
    for name in ("match", "exclude"):
        if settings.get(name) is not None and f"{path}.{name}" not in lines:
            lines |= _match_problems(f"{path}.{name}", settings[name])
    lr, lr_scale, frozen, adapter = map(settings.get, ("lr", "lr_scale", "frozen", "adapter"))
    if isinstance(adapter, Mapping):
        lines |= signature_problems(fields_of(Adapter), adapter, f"{path}.adapter.")
    if lr is not None and lr_scale is not None:
        reason = f"lr_scale={lr_scale} is given too; give one of the two"
        lines[f"{path}.lr"] = f"{path}.lr={lr}: {reason}"
    unused = [name for name in ("optimizer", "adapter") if settings.get(name) is not None]
    if frozen is True and unused:
        reason = f"a frozen group needs no {unused[0]}; remove one of the two"
        lines[f"{path}.frozen"] = f"{path}.frozen=True: {reason}"
    if settings.get("statistics", "frozen") != "frozen" and not frozen:
        reason = "the group is not frozen, so they train; remove it, or give `frozen` too"
        lines.setdefault(f"{path}.statistics", f"{path}.statistics=train: {reason}")
    return lines


def _match_problems(path: str, match: str | Named) -> Problems:
    given = {"name": match} if isinstance(match, str) else match
    criteria = {name: value for name, value in given.items() if value is not None}
    expected = signature("andiron.optim.Match") or Signature({})
    lines = signature_problems(expected, criteria, prefix=f"{path}.")
    if all(value in ([], ()) for value in criteria.values()):
        reason = "names no criterion, and would claim every parameter"
        lines[path] = f"{path}={match}: {reason}; give one of {', '.join(expected.parameters)}"
    try:
        patterns.compiled(criteria.get("name", ""))
    except ValueError as error:
        lines.setdefault(f"{path}.name", f"{path}.name={error}")
    return lines


def _option_problems(path: str, rule: Named, plain: Named) -> Problems:
    """The options beside the settings, checked against the group's optimizer."""
    node = rule.get("optimizer") or plain.get("optimizer")
    target = node.get("_target_") if isinstance(node, Mapping) else None
    if not isinstance(target, str):
        return {}
    return node_checks.argument_problems(target, options(rule), path, "optimizer")

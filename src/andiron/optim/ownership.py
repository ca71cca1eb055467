"""Who owns which parameter: decided by rules and proved before the first step."""

from collections.abc import Mapping, Sequence

from torch import nn

from andiron import errors
from andiron.optim.match_rules import Described, Rule, describe

BASE = "base"  # the group that owns what no rule claims
Owned = dict[str, dict[str, nn.Parameter]]  # group, then parameter name


def assign(model: nn.Module, rules: Mapping[str, Rule]) -> Owned:
    """The trainable parameters of `model` by the group that owns them, each in exactly one; the rest is the base's.

    Raises: ConfigError naming every parameter with two owners, every rule that claims none, and every name in a rule
    that no parameter has.
    """
    known = describe(model)
    parameters = [parameter for parameter in known if parameter.tensor.requires_grad]
    claims = {group: [p for p in parameters if rule(p)] for group, rule in rules.items()}
    problems = [
        *_unknown_names(rules, known),
        *_empty(claims, rules, parameters),
        *_overlaps(claims, parameters),
    ]
    if BASE in rules:
        problems.append(
            f"param_groups.{BASE}: the name of the group that owns what no rule claims; choose another"
        )
    if problems:
        raise errors.ConfigError(problems)
    claimed = {parameter.name for claim in claims.values() for parameter in claim}
    claims[BASE] = [parameter for parameter in parameters if parameter.name not in claimed]
    return {
        group: {parameter.name: parameter.tensor for parameter in claim}  # type: ignore[misc]
        for group, claim in claims.items()
        if claim
    }


def _overlaps(
    claims: Mapping[str, Sequence[Described]], parameters: Sequence[Described]
) -> list[str]:
    """A line for each set of groups that claim the same parameters."""
    twice: dict[tuple[str, ...], list[Described]] = {}
    names = {group: {parameter.name for parameter in claim} for group, claim in claims.items()}
    for parameter in parameters:
        owners = tuple(group for group, claimed in names.items() if parameter.name in claimed)
        if len(owners) > 1:
            twice.setdefault(owners, []).append(parameter)
    return [
        f"param_groups: {'parameter' if len(shared) == 1 else 'parameters'} {', '.join(map(str, shared))} "
        f"{'is' if len(shared) == 1 else 'are'} claimed by groups {_and(owners)}; a parameter has one owner: "
        f"exclude what {owners[-1]!r} claims from {owners[0]!r}, or narrow one of the rules"
        for owners, shared in twice.items()
    ]


def _empty(
    claims: Mapping[str, Sequence[Described]],
    rules: Mapping[str, Rule],
    parameters: Sequence[Described],
) -> list[str]:
    names = ", ".join(parameter.name for parameter in parameters) or "none"
    return [
        f"param_groups.{group}: claims no trainable parameter (match {rules[group].match}"
        f"{f'; exclude {rules[group].exclude}' if rules[group].exclude else ''}); remove the group, or match some of: {names}"
        for group, claim in claims.items()
        if not claim
    ]


def _unknown_names(rules: Mapping[str, Rule], known: Sequence[Described]) -> list[str]:
    there = [name for parameter in known for name in parameter.names]
    return [
        f"param_groups.{group}: no parameter is named {name!r}{errors.nearest(name, there)}"
        for group, rule in rules.items()
        for match in (rule.match, rule.exclude)
        if match is not None
        for name in match.parameters
        if name not in there
    ]


def _and(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"

"""Which group owns which parameter: decided by rules and proved before the first step."""

from collections.abc import Mapping, Sequence

from torch import nn

from andiron import errors
from andiron.optim.match_rules import Described, Rule, described

BASE = "base"  # the group that owns the parameters no rule claims
Owned = dict[str, dict[str, nn.Parameter]]  # by group, then parameter name


def assign(model: nn.Module, rules: Mapping[str, Rule]) -> Owned:
    """The trainable parameters of `model` by group; the base owns those that no rule claims.

    Raises: ConfigError naming every parameter with two owners, every rule that claims none, and
    every name in a rule that no parameter has.
    """
    known = described(model)
    parameters = [parameter for parameter in known if parameter.tensor.requires_grad]
    claims = {group: [p for p in parameters if rule(p)] for group, rule in rules.items()}
    problems = [
        *_unknown_names(rules, known),
        *_empty(claims, rules, parameters),
        *_overlaps(claims, parameters),
    ]
    if BASE in rules:
        meaning = "the name of the group that owns what no rule claims; choose another"
        problems.append(f"param_groups.{BASE}: {meaning}")
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
    shared: dict[tuple[str, ...], list[str]] = {}
    for parameter in parameters:
        owners = tuple(group for group, claim in claims.items() if parameter in claim)
        if len(owners) > 1:
            shared.setdefault(owners, []).append(str(parameter))
    return [_overlap(owners, names) for owners, names in shared.items()]


def _overlap(owners: Sequence[str], names: Sequence[str]) -> str:
    quoted = [repr(owner) for owner in owners]
    subject = f"parameter {names[0]} is"
    if len(names) > 1:
        subject = f"parameters {', '.join(names)} are"
    return (
        f"param_groups: {subject} claimed by groups {', '.join(quoted[:-1])} and {quoted[-1]}; "
        f"a parameter has one owner: exclude what {quoted[-1]} claims from {quoted[0]}, or narrow "
        "one of the rules"
    )


def _empty(
    claims: Mapping[str, Sequence[Described]],
    rules: Mapping[str, Rule],
    parameters: Sequence[Described],
) -> list[str]:
    names = ", ".join(parameter.name for parameter in parameters) or "none"
    lines = []
    for group in [group for group, claim in claims.items() if not claim]:
        rule = rules[group]
        excluded = f"; exclude {rule.exclude}" if rule.exclude else ""
        lines.append(
            f"param_groups.{group}: claims no trainable parameter (match {rule.match}{excluded}); "
            f"remove the group, or match some of: {names}"
        )
    return lines


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

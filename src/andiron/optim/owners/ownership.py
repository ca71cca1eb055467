"""Assigns each parameter to one group by rules, checked before the first step."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from torch import nn

from andiron import errors
from andiron.optim.owners.match_rules import Described, Rule, described

BASE = "base"  # the group that owns the parameters no rule claims
Owned = dict[str, dict[str, nn.Parameter]]  # by group, then parameter name
Parameters = Sequence[Described]


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
        *_unmatched_rules(claims, rules, parameters),
        *_overlaps(claims, parameters),
    ]
    if BASE in rules:
        problems.append(
            f"param_groups.{BASE}: the name of the group that owns what no rule claims; choose "
            "another"
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


def _overlaps(claims: Mapping[str, Parameters], parameters: Parameters) -> Iterator[str]:
    """A line for each set of groups that claim the same parameters."""
    shared = defaultdict[tuple[str, ...], list[str]](list)
    for parameter in parameters:
        owners = tuple(repr(group) for group, claim in claims.items() if parameter in claim)
        shared[owners].append(str(parameter))
    for owners, names in shared.items():
        if len(owners) > 1:
            subject = f"parameter {names[0]} is"
            if len(names) > 1:
                subject = f"parameters {', '.join(names)} are"
            yield (
                f"param_groups: {subject} claimed by groups {', '.join(owners[:-1])} and "
                f"{owners[-1]}; a parameter has one owner: exclude what {owners[-1]} claims from "
                f"{owners[0]}, or narrow one of the rules"
            )


def _unmatched_rules(
    claims: Mapping[str, Parameters], rules: Mapping[str, Rule], parameters: Parameters
) -> Iterator[str]:
    names = ", ".join(parameter.name for parameter in parameters) or "none"
    for group, rule in rules.items():
        if not claims[group]:
            excluded = f"; exclude {rule.exclude}" if rule.exclude else ""
            kinds = {kind.__name__ for parameter in parameters for kind in parameter.kinds}
            there = f"; modules: {', '.join(sorted(kinds))}" if rule.match.module else ""
            yield (
                f"param_groups.{group}: claims no trainable parameter (match {rule.match}"
                f"{excluded}{there}); remove the group, or match some of: {names}"
            )


def _unknown_names(rules: Mapping[str, Rule], parameters: Parameters) -> list[str]:
    names = [name for parameter in parameters for name in parameter.names]
    return [
        f"param_groups.{group}: no parameter is named {name!r}{errors.nearest(name, names)}"
        for group, rule in rules.items()
        for match in filter(None, (rule.match, rule.exclude))
        for name in match.parameters
        if name not in names
    ]

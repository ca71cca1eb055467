"""The proof that every parameter has one owner, against an oracle that counts claims one by one."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from andiron import errors
from andiron.optim import Match, Rule
from andiron.optim.owners import match_rules as rules_module, ownership
from refusals import message_of

KINDS = {
    "Linear": lambda: nn.Linear(2, 3),
    "Conv2d": lambda: nn.Conv2d(1, 2, 3, bias=False), "LayerNorm": lambda: nn.LayerNorm(3),
    "Embedding": lambda: nn.Embedding(4, 2),
}  # fmt: skip
NAMES = ("body", "head", "norm", "a", "b")
TAGS = ("slow", "fast")


@st.composite
def trees(draw, depth=2):
    """A module tree with shared and frozen parameters and tags in it."""
    module = nn.Module()
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)):
        nested = depth > 0 and draw(st.booleans())
        child = draw(trees(depth=depth - 1)) if nested else KINDS[draw(st.sampled_from([*KINDS]))]()
        if draw(st.integers(0, 3)) == 0:
            setattr(child, rules_module.TAGS, (draw(st.sampled_from(TAGS)),))
        setattr(module, name, child)
    if depth == 2:
        linears = [part for part in module.modules() if isinstance(part, nn.Linear)]
        if len(linears) > 1 and draw(st.booleans()):
            linears[-1].weight = linears[0].weight
        for parameter in module.parameters():
            parameter.requires_grad_(draw(st.integers(0, 5)) > 0)
    return module


@st.composite
def matches(draw, model):
    """Criteria, at least one, by name."""
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    criteria = {
        "name": st.sampled_from([*NAMES, "weight$", "bias", r"^body\.", r"a.*b"]),
        "parameters": st.lists(st.sampled_from(names), min_size=1, max_size=3).map(tuple),
        "module": st.lists(st.sampled_from([*KINDS, "Module"]), min_size=1, max_size=2).map(tuple),
        "rank": st.lists(st.integers(0, 4), min_size=1, max_size=2).map(tuple),
        "tag": st.lists(
            st.sampled_from([*TAGS, "first", "hidden", "last"]), min_size=1, max_size=2
        ).map(tuple),
    }
    chosen = draw(st.lists(st.sampled_from([*criteria]), min_size=1, max_size=2, unique=True))
    return {name: draw(criteria[name]) for name in chosen}


@st.composite
def cases(draw):
    """A model, and by group the criteria of its match and of its exclude (or None)."""
    model = draw(trees())
    groups = {}
    for group in draw(st.lists(st.sampled_from(["g", "h", "i"]), max_size=3, unique=True)):
        exclude = draw(matches(model)) if draw(st.booleans()) else None
        groups[group] = draw(matches(model)), exclude
    return model, groups


def prefixes(path):
    """`a`, `a.b` and `a.b.c` of `a.b.c`."""
    parts = path.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def holders(model):
    """(full name, module, the modules from the root down to it) of every name of every
    parameter."""
    return [
        (
            f"{path}.{name}" if path else name, module,
            [model.get_submodule(outer) for outer in ("", *prefixes(path))],
        )
        for path, module in model.named_modules(remove_duplicate=False)
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]  # fmt: skip


def claims(model, match):
    """The parameters, by id, that meet the criteria: each looked at by itself, in the plainest
    way."""
    wide = [
        module
        for _, module, _ in holders(model)
        if any(p is not None and p.dim() >= 2 for p in module._parameters.values())
    ]
    with_matrix = [
        m for m in wide for p in m._parameters.values() if p is not None and p.dim() >= 2
    ]
    result = set()
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for tensor in {id(p): p for p in parameters.values()}.values():
        uses = [
            (name, module, outer)
            for name, module, outer in holders(model)
            if parameters[name] is tensor
        ]
        places = {"first"} if any(m is with_matrix[0] for _, m, _ in uses if with_matrix) else set()
        places |= (
            {"last"} if any(m is with_matrix[-1] for _, m, _ in uses if with_matrix) else set()
        )
        tags = {
            t for _, _, outer in uses for m in outer for t in getattr(m, rules_module.TAGS, ())
        } | (places or {"hidden"})
        classes = {c.__name__ for _, m, _ in uses for c in type(m).__mro__}
        if (
            (match.name is None or any(re.search(match.name, name) for name, _, _ in uses))
            and (not match.parameters or any(name in match.parameters for name, _, _ in uses))
            and (not match.module or any(c in classes for c in match.module))
            and (not match.rank or tensor.dim() in match.rank)
            and (not match.tag or any(t in tags for t in match.tag))
        ):
            result.add(id(tensor))
    return result


@settings(max_examples=150, deadline=None)
@given(cases())
def test_exactly_the_partitions_are_accepted_and_refusals_say_why(case):
    model, groups = case
    rules = {
        name: Rule(Match(**match), None if out is None else Match(**out))
        for name, (match, out) in groups.items()
    }
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    by_id = {id(p): name for name, p in trained.items()}
    claimed = {
        group: claims(model, rule.match) - (claims(model, rule.exclude) if rule.exclude else set())
        for group, rule in rules.items()
    }
    wanted = {
        group: {by_id[key] for key in keys if key in by_id} for group, keys in claimed.items()
    }
    twice = {name: [g for g in rules if name in wanted[g]] for name in trained}
    twice = {name: groups for name, groups in twice.items() if len(groups) > 1}
    empty = [group for group in rules if not wanted[group]]

    if not twice and not empty:
        owned = ownership.assign(model, rules)
        assert {group: set(names) for group, names in owned.items() if group != "base"} == wanted
        assert sorted(name for names in owned.values() for name in names) == sorted(trained)
        for names in owned.values():
            assert [*names] == [name for name in trained if name in names]  # in the model's order
            assert all(parameter is trained[name] for name, parameter in names.items())
        assert set(owned.get("base", {})) == set(trained) - set().union(*wanted.values())
        return
    with pytest.raises(errors.ConfigError) as refused:
        ownership.assign(model, rules)
    overlaps = [line for line in refused.value.problems if "a parameter has one owner" in line]
    every_name = dict(model.named_parameters(remove_duplicate=False))
    for name, groups in twice.items():
        aliases = [alias for alias, tensor in every_name.items() if tensor is trained[name]]
        (line,) = [line for line in overlaps if f"'{name}'" in line.partition("claimed by")[0]]
        assert all(alias in line for alias in aliases)
        assert line.partition("claimed by groups ")[2].startswith(
            ", ".join(f"'{g}'" for g in groups[:-1]) + f" and '{groups[-1]}'"
        )
    named = {
        name
        for line in overlaps
        for name in re.findall(r"'([^']+)'", line.partition("claimed by")[0])
    }
    assert named == set(twice)
    refused_empty = [
        line.split(":")[0]
        for line in refused.value.problems
        if "claims no trainable parameter" in line
    ]
    assert refused_empty == [f"param_groups.{group}" for group in empty]
    assert len(refused.value.problems) == len(overlaps) + len(empty)


def model():
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def test_without_rules_the_base_owns_everything_that_is_trained():
    net = model()
    net[1].bias.requires_grad_(False)

    assert {group: [*names] for group, names in ownership.assign(net, {}).items()} == {
        "base": ["0.weight", "0.bias", "1.weight", "2.weight", "2.bias"]
    }


def test_a_base_that_is_left_nothing_is_no_group():
    assert set(ownership.assign(model(), {"all": Rule(Match(name=""))})) == {"all"}


def test_a_shared_parameter_claimed_by_two_of_its_names_is_refused_by_both():
    net = nn.ModuleDict({"embedding": nn.Embedding(4, 3), "head": nn.Linear(3, 4, bias=False)})
    net["head"].weight = net["embedding"].weight
    rules = {"in": Rule(Match(name="embedding")), "out": Rule(Match(name="head"))}
    words = (
        "param_groups: parameter 'embedding.weight' (also head.weight) is claimed by groups 'in' "
        "and 'out'; a parameter has one owner: exclude what 'out' claims from 'in', or narrow one"
    )
    assert words in message_of(errors.ConfigError, ownership.assign, net, rules)


@pytest.mark.parametrize(("rules", "words"), [
    ({"head": Rule(Match(parameters=("2.wieght", "2.bias")))},
     "param_groups.head: no parameter is named '2.wieght'; did you mean '2.weight'?"),
    ({"base": Rule(Match(name="0"))},
     "param_groups.base: the name of the group that owns what no rule claims"),
    *[({"matrices": Rule(Match(module=name))},
       f"param_groups.matrices: claims no trainable parameter (match module: ['{name}']; modules: "
       "LayerNorm, Linear); remove the group, or match some of: 0.weight, 0.bias, 1.weight, ")
      for name in ("torch.nn.Linaer", "torch.nn.Conv2d", "other.Linear")],
])  # fmt: skip
def test_a_rule_that_claims_what_is_not_there_is_refused(rules, words):
    assert words in message_of(errors.ConfigError, ownership.assign, model(), rules)


def test_a_weight_shared_by_the_first_and_the_last_module_is_both():
    net = nn.ModuleDict(
        {"embedding": nn.Embedding(4, 3), "block": nn.Linear(3, 3), "head": nn.Linear(3, 4)}
    )
    net["head"].weight = net["embedding"].weight

    owned = ownership.assign(
        net, {"hidden": Rule(Match(tag=("hidden",))), "last": Rule(Match(tag=("last",)))}
    )

    assert {group: [*names] for group, names in owned.items()} == {
        "hidden": ["block.weight", "block.bias"],
        "last": ["embedding.weight", "head.bias"],
    }


def test_first_hidden_and_last_are_where_the_matrices_stand():
    net = nn.Sequential(
        nn.LayerNorm(3), nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 2),
        nn.LayerNorm(2),
    )  # fmt: skip

    owned = ownership.assign(
        net, {place: Rule(Match(tag=(place,))) for place in ("first", "hidden", "last")}
    )

    assert {
        group: {name.partition(".")[0] for name in names} for group, names in owned.items()
    } == {"first": {"1"}, "hidden": {"0", "2", "3", "5"}, "last": {"4"}}


@pytest.mark.parametrize(
    "criteria", [{"tag": "last"}, {"module": "Linear"}, {"rank": 1}, {"parameters": "0.weight"}]
)
def test_one_value_of_a_criterion_stands_for_a_tuple_of_one(criteria):
    ((name, value),) = criteria.items()

    assert Match(**criteria) == Match(**{name: (value,)})


@pytest.mark.parametrize("name", ["Linear", "torch.nn.Linear", "torch.nn.modules.linear.Linear"])
def test_a_class_is_matched_by_its_name_or_where_it_is_imported_from(name):
    owned = ownership.assign(model(), {"matrices": Rule(Match(module=name))})

    assert [*owned["matrices"]] == ["0.weight", "0.bias", "2.weight", "2.bias"]

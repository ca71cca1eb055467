"""The search space in Hydra's syntax: what optuna is given, and what is refused."""

import pytest
from optuna.distributions import CategoricalDistribution as Choice
from optuna.distributions import FloatDistribution as Float
from optuna.distributions import IntDistribution as Int

from andiron import errors
from andiron_lab.search.search_space import search_space
from refusals import message_of

SPACES = {
    "interval(0.1,0.5)": Float(0.1, 0.5),
    "interval(1,5)": Float(1, 5),
    "int(interval(1,5))": Int(1, 5),
    "tag(int,interval(1,5))": Int(1, 5),
    "tag(log,interval(1e-4,1e-1))": Float(1e-4, 1e-1, log=True),
    "tag(log,int(interval(16,256)))": Int(16, 256, log=True),
    "int(tag(log,interval(16,256)))": Int(16, 256, log=True),
    "range(1,5)": Int(1, 4),
    "range(1,6,2)": Int(1, 5, step=2),
    "range(6,1,-2)": Int(2, 6, step=2),
    "range(0.1,0.5,0.1)": Float(0.1, 0.4, step=0.1),
    "tag(log,range(1,5))": Int(1, 4, log=True),
    "choice(adam,sgd)": Choice(["adam", "sgd"]),
    "adam,sgd,adam": Choice(["adam", "sgd"]),
    "1,2,0.5,null,true": Choice(["1", "2", "0.5", "null", "True"]),
    "[8,16],[32]": Choice(["[8,16]", "[32]"]),
    "'it is','that'": Choice(["'it is'", "'that'"]),
}


@pytest.mark.parametrize("text", SPACES)
def test_an_override_is_a_distribution(text):
    assert search_space([f"x={text}"], None).options == {"x": SPACES[text]}


@pytest.mark.parametrize(
    ("text", "why"),
    {
        "tag(fast,interval(0,1))": "tag fast: log and int are tags of an interval",
        "tag(log,choice(1,2))": "tag log: log and int are tags of an interval",
        "tag(log,range(1,9,2))": "tag log: log and int are tags of an interval",
        "tag(log,interval(0,1))": "low", "interval(2,1)": "low",
        "interval(0,inf)": "an interval needs two finite ends", "range(5,1)": "the range is empty",
        "[1,": "no viable alternative",
    }.items(),
)  # fmt: skip
def test_an_invalid_override_is_refused_by_name(text, why):
    with pytest.raises(errors.ConfigError) as refused:
        search_space([f"x={text}"], None)

    (problem,) = refused.value.problems
    assert problem.startswith(f"x={text}: cannot be searched: ")
    assert why in problem


def test_a_search_without_a_searched_option_is_refused():
    assert "no option is searched" in message_of(errors.ConfigError, search_space, ["lr=1"], None)


def test_a_later_override_of_an_option_replaces_an_earlier_one():
    params = ["lr=interval(0,1)", "seed=1,2", "model=mlp"]

    space = search_space([*params, "lr=tag(log,interval(1e-3,1))", "seed=3"], None)

    assert space.options == {"lr": Float(1e-3, 1, log=True)}
    assert space.fixed == ("model=mlp", "seed=3")


def test_a_job_has_the_shared_overrides_and_its_values():
    space = search_space(["n=3", "lr=range(0.1,0.5,0.1)", "optimizer=adam,sgd"], None)

    chosen = {"lr": 0.1 + 2 * 0.1, "optimizer": "sgd"}
    assert space.overrides(chosen) == ["n=3", "lr=0.3", "optimizer=sgd"]


def test_corners_have_both_ends_and_every_choice():
    space = search_space(["lr=interval(0,1)", "optimizer=adam,sgd,lion"], None)

    assert space.corners() == [
        ["lr=0.0", "optimizer=adam"], ["lr=1.0", "optimizer=sgd"], ["lr=1.0", "optimizer=lion"],
    ]  # fmt: skip

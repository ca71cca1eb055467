"""Options beside resume: what is free, what has to be allowed, what is refused, and how they are
put on the record.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andiron import errors
from andiron.shell.config import leaves
from andiron.shell.run import resume_policy

RECORD = {
    "lr": 0.1, "num_epochs": 2, "batch_size": 64, "clip": None,
    "metrics": {"loss": {"_target_": "Loss"}},
    "data": {"_target_": "mnist", "root": "/a", "valid": 0.1},
    "model": {"_target_": "MLP", "hidden": [64, 32]},
    "optimizer": {"_target_": "Adam", "eps": 1e-8},
    "scheduler": {"_target_": "Cosine", "initial_lr": 0.1, "min_lr": 0.0}, "averages": None,
    "resume": None,
}  # fmt: skip


def changed(**options):
    """The record with some options, by dotted name with two underscores for a dot, said anew."""
    asked = {
        name: dict(value) if isinstance(value, dict) else value for name, value in RECORD.items()
    }
    for name, value in options.items():
        group, _, inner = name.partition("__")
        if inner:
            asked[group][inner] = value
        else:
            asked[group] = value
    return resume_policy.changes(RECORD, asked)


def problems(actual, *allowed):
    try:
        resume_policy.check(actual, allowed)
    except errors.ConfigError as error:
        return list(error.problems)
    return []


def test_changes_are_listed_by_path_without_instructions():
    assert changed(resume="/a") == {}
    assert changed(lr=0.2, model__hidden=[8]) == {
        ("lr",): (0.1, 0.2),
        ("model", "hidden"): ([64, 32], [8]),
    }
    assert changed(model__dropout=0.5) == {("model", "dropout"): (leaves.MISSING, 0.5)}


MOVED_SETS = [
    {"data__valid_sets": {"night": "/b.csv"}},
    {"data__data": {"valid_sets": {"night": "/b.csv"}}},  # of the data that folds are made of
]


@pytest.mark.parametrize("options", [{"num_epochs": 9}, {"data__root": "/b"}, *MOVED_SETS], ids=str)
def test_options_that_do_not_affect_learning_are_free(options):
    assert problems(changed(**options)) == []


@pytest.mark.parametrize("option, value", [
    ("lr", 0.2), ("batch_size", 32), ("clip", 1.0), ("optimizer__eps", 1e-6),
    ("scheduler___target_", "Constant"),
])  # fmt: skip
def test_options_that_affect_learning_must_be_allowed_by_name(option, value):
    result = changed(**{option: value})
    name, before = option.replace("__", ".", 1), RECORD[option.partition("__")[0]]
    before = before[option.partition("__")[2]] if isinstance(before, dict) else before
    root = name.partition(".")[0]

    assert problems(result) == [
        f"{name}={value}: the run was recorded with {before}, and was trained with that so far; "
        f"give resume_allow=[{root}] to resume with the new value"
    ]
    assert problems(result, root) == []
    assert problems(result, "seed") != []


@pytest.mark.parametrize("option, value", [
    ("model__hidden", [8]),
    ("data__valid", 0.2),
    ("metrics", {"loss": {"_target_": "Other"}}),
    ("optimizer___target_", "SGD"),
    ("averages", {"ema": {"_target_": "Ema"}}),
])  # fmt: skip
def test_options_that_define_the_run_are_refused_even_if_allowed(option, value):
    (problem,) = problems(changed(**{option: value}), "optimizer", "averages")
    assert (
        "and a resumed run keeps it; start another run, with start_from=<run folder> for its "
        "weights" in problem
    )


def test_refused_changes_are_all_reported_a_class_without_its_arguments():
    result = changed(lr=0.2, optimizer___target_="SGD", optimizer__eps=1, model__hidden=[8])
    assert [problem.partition(":")[0] for problem in problems(result)] == [
        "lr=0.2", "model.hidden=[8]", "optimizer._target_=SGD",
    ]  # fmt: skip


def test_a_schedules_repetition_of_lr_is_governed_by_lr():
    result = changed(lr=0.2, scheduler__initial_lr=0.2)
    assert len(problems(result)) == 1
    assert problems(result, "lr") == []


def test_a_name_that_cannot_be_allowed_is_reported_with_the_nearest():
    (problem,) = problems({}, "bach_size")
    assert problem.startswith(
        "resume_allow=[bach_size]: names no option that can be allowed; did you mean 'batch_size'?"
    )


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3),
    max_leaves=8,
)
configs = st.dictionaries(st.sampled_from(["lr", "model", "data", "x"]), values, max_size=4)


@given(configs, configs)
def test_applying_the_changes_to_the_one_gives_the_other(one, other):
    made = resume_policy.applied(one, resume_policy.changes(one, other))
    assert resume_policy.changes(made, other) == {}


@given(configs, configs)
def test_nothing_is_changed_in_what_is_given(one, other):
    before = repr(one)
    resume_policy.applied(one, resume_policy.changes(one, other))
    assert repr(one) == before


def test_changes_are_shown_and_recorded_with_both_values(caplog):
    result = changed(lr=0.2, model__dropout=0.5, model__bias=None)
    with caplog.at_level("INFO", "andiron"):
        resume_policy.log_start("resuming", leaves.by_name(result), 1)
    lines = ["changed: lr: 0.1 -> 0.2", "changed: model.dropout: nothing -> 0.5"]
    assert caplog.messages == ["resuming", *lines]
    assert leaves.by_name(result) == {
        "lr": [0.1, 0.2], "model.dropout": [None, 0.5], "model.bias": [None, None]
    }  # fmt: skip

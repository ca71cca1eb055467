"""From a config node to what it names: what is filled in, what is refused, and that nothing of Hydra's stays around it."""

import functools
import sys

import pytest
import torch

from andiron import errors
from andiron.config import targets

OWN_MODULE = '''
"""A module of a user's own, which no schema and no registry knows."""
import os

CONSTANT = 3


class Network:
    def __init__(self, input_shape, num_classes, *, width=8, depth):
        self.arguments = (input_shape, num_classes, width, depth)


def network(width, num_classes=None):
    return (width, num_classes)


def anything(**options):
    return options


def outer(inner):
    return inner
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module that lies in a folder on `sys.path`."""
    (tmp_path / "users_own.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "users_own"
    sys.modules.pop("users_own", None)


def problems(node, **offered):
    with pytest.raises(errors.ConfigError) as caught:
        targets.build("model", node, **offered)
    return list(caught.value.problems)


def test_what_the_config_leaves_out_or_null_is_filled_in_and_what_it_says_stays(own):
    node = {"_target_": f"{own}.Network", "depth": 2}
    sizes = {"input_shape": (1, 8, 8), "num_classes": 10}

    assert targets.build("model", node, **sizes).arguments == ((1, 8, 8), 10, 8, 2)
    assert targets.build("model", {**node, "num_classes": None}, **sizes).arguments == ((1, 8, 8), 10, 8, 2)
    assert targets.build("model", {**node, "num_classes": 3}, **sizes).arguments == ((1, 8, 8), 3, 8, 2)


def test_what_the_callable_does_not_take_is_not_filled_in(own):
    assert targets.build("model", {"_target_": f"{own}.network", "width": 5}, input_shape=(1,), num_classes=7) == (5, 7)
    assert targets.build("model", {"_target_": f"{own}.anything", "width": 5}, num_classes=7) == {"width": 5}


def test_a_shipped_target_gets_its_sizes_from_the_run():
    node = {"_target_": "andiron.models.MLP", "hidden": [5], "dropout": 0.0}

    network = targets.build("model", node, input_shape=(1, 2, 3), num_classes=4)

    assert [list(parameter.shape) for parameter in network.parameters()] == [[5, 6], [5], [4, 5], [4]]


def test_a_node_within_a_node_is_built_first(own):
    inner = {"_target_": f"{own}.network", "width": 3}

    assert targets.build("model", {"_target_": f"{own}.outer", "inner": inner}) == (3, None)


def test_arguments_arrive_as_plain_lists_and_dicts(own):
    built = targets.build("model", {"_target_": f"{own}.anything", "sizes": [1, [2]], "options": {"a": {"b": 1}}})

    assert (type(built["sizes"]), type(built["sizes"][1]), type(built["options"]["a"])) == (list, list, dict)


def test_an_unknown_argument_is_answered_by_the_nearest_or_by_all(own):
    node = {"_target_": f"{own}.Network", "depth": 2, "input_shape": [1], "num_classes": 3}

    assert problems({**node, "widht": 3}) == ["model.widht: Network has no such argument; did you mean 'width'?"]
    assert problems({**node, "activation": 3}) == [
        "model.activation: Network has no such argument; it takes: input_shape, num_classes, width, depth"
    ]


def test_missing_and_unknown_arguments_are_told_at_once(own):
    assert problems({"_target_": f"{own}.Network", "dept": 3}, num_classes=10) == [
        "model.dept: Network has no such argument; did you mean 'depth'?",
        "model.input_shape: Network needs it; give one as +model.input_shape=...",
        "model.depth: Network needs it; give one as +model.depth=...",
    ]


def test_an_argument_without_a_name_is_refused(own):
    assert problems({"_target_": f"{own}.network", "_args_": [3]}) == [
        "model._args_: arguments go by name here; give each under its own"
    ]


def test_the_function_is_the_plain_one_and_not_hydras_deferred_object(own):
    target = targets.function("optimizer", {"_target_": "torch.optim.Adam", "betas": [0.9, 0.95]})

    assert type(target) is functools.partial
    assert target.func is torch.optim.Adam
    assert (target.args, target.keywords) == ((), {"betas": [0.9, 0.95]})


def test_the_result_is_what_the_callable_returned_and_nothing_around_it(own):
    assert type(targets.build("model", {"_target_": f"{own}.Network", "depth": 2}, input_shape=(1,), num_classes=1)) is (
        sys.modules[own].Network
    )


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "subprocess.run", "users_own.os.system"])
def test_a_target_that_runs_commands_is_refused(own, name, tmp_path):
    (line,) = problems({"_target_": name, "command": f"touch {tmp_path / 'ran'}"})

    assert line.startswith(f"model._target_={name}: cannot be used: ")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module.Network", "No module named 'no_such_module'"),
        ("users_own.Netwrok", "Are you sure that 'Netwrok' is importable from module 'users_own'?"),
        ("users_own.CONSTANT", "Expected a callable target"),
        ("", "Empty path"),
    ],
)
def test_a_target_that_is_not_there_or_cannot_be_called_is_named(own, name, words):
    (line,) = problems({"_target_": name})

    assert line.startswith(f"model._target_={name}: cannot be used: ")
    assert words in line


def test_a_target_that_does_not_tell_its_arguments_is_refused():
    assert problems({"_target_": "builtins.dict"}) == [
        "model._target_=builtins.dict: does not tell which arguments it takes; name a Python function or class"
    ]


def test_a_mistake_inside_the_users_own_code_keeps_its_own_words(own, tmp_path):
    (tmp_path / "users_own_two.py").write_text("def network():\n    raise RuntimeError('width must be even')\n")

    with pytest.raises(RuntimeError, match="^width must be even$"):
        targets.build("model", {"_target_": "users_own_two.network"})

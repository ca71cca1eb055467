"""From a config node to what it names: what is filled in, what is refused, and that nothing of
Hydra's stays around it.
"""

import copy
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from andiron import errors, schedules
from andiron.schedules import (
    Composed, Constant, Cosine, CosineRestarts, Linear, Sequential, Warmup, WarmupStableDecay,
)  # fmt: skip
from andiron.shell.assembly import targets
from andiron.shell.config import resolution, schema
from andiron.wings.explain import mistakes
from refusals import lacking, message_of

CONF = Path(__file__).resolve().parents[3] / "conf"

OWN_MODULE = '''
"""A user's own module, unknown to every schema and registry."""
import functools
import os
import urllib.error

CONSTANT = 3


class Network:
    def __init__(self, input_shape, num_classes, *, width=8, depth):
        self.arguments = (input_shape, num_classes, width, depth)


def network(width, num_classes=None):
    return (width, num_classes)


def anything(**options):
    return options


def taking_more(function):
    """As the configurations of transformers: the decorator takes what the constructor does not."""

    @functools.wraps(function)
    def wrapper(*args, labels=2, **kwargs):
        return *function(*args, **kwargs), labels

    return wrapper


@taking_more
def decorated(hidden_size=8):
    return (hidden_size,)


def paired(sizes: tuple[int, int], either: tuple[int, ...] | float, many: list[int] | tuple):
    return sizes, either, many


def optional_package():
    raise ModuleNotFoundError("this needs `nltk`: use `pip install nltk`")


def offline():
    raise urllib.error.URLError("no route to host")


def outer(inner):
    return inner


def scaled(schedule, factor):
    return lambda updates: factor * schedule(updates)


def weighted(parts, num_updates):
    if len(parts) < 2:
        raise ValueError("one part cannot be weighted")
    return lambda updates: sum(part(updates) for part in parts) + num_updates


def of_parts(parts: tuple[object, ...]):
    return parts
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module that lies in a folder on `sys.path`."""
    (tmp_path / "users_own.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "users_own"


def problems(node, **offered):
    with pytest.raises(errors.ConfigError) as caught:
        targets.build("model", node, **offered)
    return list(caught.value.problems)


def test_missing_and_null_arguments_are_filled_in_and_set_ones_are_kept(own):
    node = {"_target_": f"{own}.Network", "depth": 2}
    for given, classes in (({}, 10), ({"num_classes": None}, 10), ({"num_classes": 3}, 3)):
        built = targets.build("model", {**node, **given}, input_shape=(1, 8, 8), num_classes=10)
        assert type(built) is sys.modules[own].Network  # nothing around it
        assert built.arguments == ((1, 8, 8), classes, 8, 2)
    node = {"_target_": "andiron.models.MLP", "hidden": [5], "dropout": 0.0}
    network = targets.build("model", node, input_shape=(1, 2, 3), num_outputs=4)
    shapes = [[*parameter.shape] for parameter in network.parameters()]
    assert shapes == [[5, 6], [5], [4, 5], [4]]


def test_arguments_that_the_callable_does_not_take_are_not_filled_in(own):
    node, sizes = {"_target_": f"{own}.network", "width": 5}, {"input_shape": (1,)}
    assert targets.build("model", node, **sizes, num_classes=7) == (5, 7)
    node = {"_target_": f"{own}.anything", "width": 5}
    assert targets.build("model", node, num_classes=7) == {"width": 5}


def test_a_node_within_a_node_is_built_first_and_the_node_left_as_it_was(own):
    given = {"_target_": f"{own}.outer", "inner": {"_target_": f"{own}.network", "width": 3}}
    before = copy.deepcopy(given)
    assert targets.build("model", given) == (3, None) and given == before
    given = node("Warmup", schedule=dict(COSINE), warmup_updates="1epoch")
    schedule(given)
    assert given == node("Warmup", schedule=COSINE, warmup_updates="1epoch")


def test_arguments_arrive_as_plain_lists_and_dicts(own):
    given = {"_target_": f"{own}.anything", "sizes": [1, [2]], "options": {"a": {"b": 1}}}
    built = targets.build("model", given)
    values = built["sizes"], built["sizes"][1], built["options"]["a"]
    assert [*map(type, values)] == [list, list, dict]


GIVEN = {"_target_": "users_own.Network", "depth": 2, "input_shape": [1], "num_classes": 3}


@pytest.mark.parametrize(("node", "lines"), [
    ({**GIVEN, "widht": 3}, ["widht: no such option; did you mean 'width'?"]),
    ({**GIVEN, "activation": 3},
     ["activation: no such option; allowed here: input_shape, num_classes, width, depth"]),
    ({"_target_": "users_own.Network", "dept": 3, "num_classes": 3},
     ["input_shape: no value; give one as model.input_shape=...",
      "depth: no value; give one as model.depth=...",
      "dept: no such option; did you mean 'depth'?"]),
    ({"_target_": "users_own.network", "_args_": [3]},
     ["_args_: arguments go by name here; give each under its own"]),
    ({"_target_": "builtins.dict"},
     ["_target_=builtins.dict: does not tell which arguments it takes; name a Python function or "
      "class"]),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_named_all_at_once(own, node, lines):
    assert problems(node) == [f"model.{line}" for line in lines]


def test_a_decorator_may_take_more_but_nothing_that_looks_misspelt(own):
    node = {"_target_": f"{own}.decorated", "hidden_size": 4}

    assert targets.build("model", {**node, "labels": 3}) == (4, 3)
    assert problems({**node, "hiden_size": 3}) == [
        "model.hiden_size: no such option; did you mean 'hidden_size'?"
    ]


def test_a_list_is_a_tuple_where_the_users_callable_takes_nothing_else(own):
    node = {"_target_": f"{own}.paired", "sizes": [1, 2], "either": [3], "many": [4]}
    assert targets.build("metrics.mine", node) == ((1, 2), (3,), [4])
    assert targets.build("metrics.mine", {**node, "either": 0.5})[1] == 0.5


def test_nodes_in_a_list_are_built_where_a_tuple_is_taken(own):
    node = {"_target_": f"{own}.of_parts", "parts": [CONSTANT, 3]}
    assert targets.build("metrics.mine", node) == (Constant(0.5), 3)


@pytest.mark.parametrize(("name", "words"), [
    ("optional_package", "._target_=users_own.optional_package: ... this needs `nltk`"),
    ("offline", "downloads weights, and that failed (no route to host); start the run with"),
])  # fmt: skip
def test_what_a_constructor_lacks_is_an_error_of_the_option(own, name, words):
    message = message_of(
        errors.ConfigError, targets.build, "metrics.mine", {"_target_": f"{own}.{name}"}
    )
    assert "metrics.mine" in message and lacking(words, message) == []


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "subprocess.run", "users_own.os.system"]
)
def test_a_target_that_runs_commands_is_refused(own, name, tmp_path):
    (line,) = problems({"_target_": name, "command": f"touch {tmp_path / 'ran'}"})

    assert line.startswith(f"model._target_={name}: cannot be used: ")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("name", "words"), [
    ("no_such_module.Network", "No module named 'no_such_module'"),
    ("users_own.Netwrok", "Are you sure that 'Netwrok' is importable from module 'users_own'?"),
    ("users_own.CONSTANT", "Expected a callable target"),
    ("", "Empty path"),
])  # fmt: skip
def test_a_missing_or_uncallable_target_is_named(own, name, words):
    (line,) = problems({"_target_": name})

    assert line.startswith(f"model._target_={name}: cannot be used: ")
    assert words in line


@pytest.mark.usefixtures("needs_lab")
def test_a_class_of_ours_tells_how_to_install_the_package_it_needs(monkeypatch, tmp_path):
    class Absent:
        @staticmethod
        def find_spec(name, *_):
            if name == "wandb":
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    with pytest.raises(errors.ConfigError) as caught:
        node = {"_target_": "andiron_lab.wandb_writer.WandbWriter"}
        targets.build("writers.wandb", node, run_dir=tmp_path)
    (line,) = caught.value.problems
    assert line.endswith(": No module named 'wandb'; it comes with `pip install wandb`")


def test_a_mistake_inside_the_users_own_code_keeps_its_own_words(own, tmp_path):
    mistake = "def network():\n    raise RuntimeError('width must be even')\n"
    (tmp_path / "users_own_two.py").write_text(mistake)
    given = {"_target_": "users_own_two.network"}
    assert message_of(RuntimeError, targets.build, "model", given) == "width must be even"


LINEAR = {
    "_target_": "andiron.schedules.Linear", "initial_lr": 0.5, "final_lr": 0.25,
    "num_updates": None,
}  # fmt: skip
COSINE = {
    "_target_": "andiron.schedules.Cosine", "initial_lr": 0.5, "min_lr": 0.0, "num_updates": None,
}  # fmt: skip
CONSTANT = {"_target_": "andiron.schedules.Constant", "lr": 0.5}


def schedule(node, *, num_updates=100, updates_per_epoch=10):
    return targets.build_schedule(
        "scheduler", node, num_updates=num_updates, updates_per_epoch=updates_per_epoch
    )


def refused(node, **numbers):
    """The one line that refuses a schedule."""
    with pytest.raises(errors.ConfigError) as caught:
        schedule(node, **numbers)
    (line,) = caught.value.problems
    return line


def node(kind, **arguments):
    return {"_target_": f"andiron.schedules.{kind}", **arguments}


def test_a_null_horizon_is_the_run_and_a_given_one_stays():
    assert schedule(LINEAR) == Linear(0.5, 0.25, 100)
    assert schedule({**LINEAR, "num_updates": 7}) == Linear(0.5, 0.25, 7)


@pytest.mark.parametrize(("said", "updates"), [
    ("1epoch", 23), ("2epochs", 46), ("0.5epochs", 12), ("0.3epochs", 7), ("0.001epochs", 1),
    (5, 5),
])  # fmt: skip
def test_epochs_are_turned_into_updates_rounded_and_at_least_one(said, updates):
    assert schedule(
        {**LINEAR, "num_updates": said}, num_updates=230, updates_per_epoch=23
    ) == Linear(0.5, 0.25, updates)


def test_epochs_are_read_in_every_argument_and_at_every_depth():
    inner = node(
        "CosineRestarts", initial_lr=0.5, min_lr=0.0, first_cycle_updates="2epochs", multiplier=2
    )
    decay = node(
        "WarmupStableDecay", lr=0.5, warmup_updates="1epoch", decay_updates="0.5epochs",
        num_updates=None,
    )  # fmt: skip
    both = node("Sequential", schedules=[inner, decay], milestones=["3epochs"])

    assert schedule(node("Warmup", schedule=both, warmup_updates="1epoch")) == Warmup(
        Sequential([CosineRestarts(0.5, 20, 2), WarmupStableDecay(0.5, 10, 5, 70)], [30]), 10
    )


def test_a_part_of_a_sequential_has_the_updates_between_its_milestones():
    inner = node("Sequential", schedules=[COSINE, LINEAR], milestones=[7])
    outer = node("Sequential", schedules=[LINEAR, inner, COSINE], milestones=[10, 45])
    second = Sequential([Cosine(0.5, 7), Linear(0.5, 0.25, 28)], [7])
    assert schedule(outer) == Sequential(
        [Linear(0.5, 0.25, 10), second, Cosine(0.5, 55)], [10, 45]
    )


def test_a_part_of_any_other_combination_has_the_whole_run():
    assert schedule(node("Warmup", schedule=COSINE, warmup_updates=5)) == Warmup(
        Cosine(0.5, 100), 5
    )
    assert schedule(node("Composed", schedules=[COSINE, LINEAR], reduction="mean")) == Composed(
        [Cosine(0.5, 100), Linear(0.5, 0.25, 100)], "mean"
    )


def test_a_plateau_inside_a_node_is_observed():
    inner = node("Plateau", initial_lr=0.5, factor=0.5, patience=0, min_lr=0.0, threshold=0.0)
    built = schedule(node("Warmup", schedule=inner, warmup_updates=1))
    (plateau,) = schedules.stateful(built)

    plateau.observe({"valid": {"loss": 1.0}})
    plateau.observe({"valid": {"loss": 1.0}})

    assert built(0) == 0.25


def test_a_users_own_schedule_takes_schedules_and_the_horizon(own):
    assert schedule({"_target_": f"{own}.scaled", "schedule": LINEAR, "factor": 2.0})(100) == 0.5
    weighted = schedule({"_target_": f"{own}.weighted", "parts": [CONSTANT, LINEAR]})
    assert weighted(50) == 0.875 + 100


LATE = {"kind": "Sequential", "schedules": [LINEAR, LINEAR], "milestones": [60]}


@pytest.mark.parametrize(("given", "line"), [
    (node("WarmupStableDecay", lr=0.5, warmup_updates="8epochs", decay_updates="3epochs"),
     ".warmup_updates=80 and decay_updates=30: together should be at most num_updates=100; "),
    (node("Warmup", warmup_updates=1, schedule=node(
        "Composed", schedules=[CONSTANT, {**LINEAR, "num_updates": 0}], reduction="sum")),
     ".schedule.schedules.1.num_updates=0: should be 1 or more"),
    (node("Composed", schedules=[], reduction="sum"), ".schedules=[]: should hold at least"),
    ({"_target_": "users_own.weighted", "parts": [LINEAR]}, ": one part cannot be weighted"),
    # before the parts are built
    (node("Sequential", schedules=[LINEAR] * 3, milestones=[20, "1epoch"]),
     ".milestones=[20, 10]: should increase, from 0 on"),
    (node("Sequential", schedules=[LINEAR] * 3, milestones=["0.5epochs"]),
     ".milestones=[5]: 1 for 3 schedules, should be 2"),
    (node("Sequential", schedules=[node(**LATE), LINEAR], milestones=[50]),
     ".schedules.0.milestones=[60]: the last should be below 50"),
    ({"_target_": "users_own.anything", "rate": 0.5},
     "._target_=users_own.anything: gives an object of dict; scheduler takes a function of the "
     "completed updates, which gives the learning rate"),
])  # fmt: skip
def test_a_schedule_that_cannot_be_is_refused_by_its_option(own, given, line):
    assert refused(given).startswith(f"scheduler{line}")


NEVER = "the number of updates, or the schedule after it never runs; set it earlier, or train for"


@pytest.mark.parametrize(("given", "line"), [
    *[(node("Sequential", schedules=[LINEAR, LINEAR], milestones=[milestone]),
       f"milestones=[{number}]: the last should be below 100, {NEVER} longer")
      for milestone, number in ((100, 100), (101, 101), ("10epochs", 100))],
    (node("Warmup", schedule=CONSTANT, warmup_updates="11epochs"),
     "warmup_updates=110: should be at most 100, the number of updates; shorten it, or train for "
     "longer"),
])  # fmt: skip
def test_a_part_that_the_run_never_comes_to_is_refused(given, line):
    assert refused(given) == f"scheduler.{line}"
    last = schedule(node("Sequential", schedules=[LINEAR, LINEAR], milestones=[99])).schedules[1]
    assert last == Linear(0.5, 0.25, 1)
    whole = schedule(node("Warmup", schedule=CONSTANT, warmup_updates="10epochs"))
    assert whole == Warmup(Constant(0.5), 100)


def test_unknown_and_missing_inner_arguments_are_reported_by_full_path():
    inner = {"_target_": "andiron.schedules.Cosine", "initial_rl": 0.5}
    with pytest.raises(errors.ConfigError) as caught:
        schedule(node("Composed", schedules=[CONSTANT, inner]))
    assert list(caught.value.problems) == [
        "scheduler.schedules.1.initial_lr: no value; give one as "
        "scheduler.schedules.1.initial_lr=...",
        "scheduler.schedules.1.initial_rl: no such option; did you mean 'initial_lr'?",
    ]
    assert refused(node("Warmup", schedul=CONSTANT, schedule=CONSTANT, warmup_updates=1)) == (
        "scheduler.schedul: no such option; did you mean 'schedule'?"
    )


def composed(*overrides):
    """The scheduler that a command line composes, which passes the checks."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        plain = resolution.plain(compose("train", overrides=["lr=0.5", *overrides]))
    assert {option for option in schema.problems(plain) if option.startswith("scheduler")} == set()
    return plain["scheduler"]


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "scheduler").glob("*.yaml")))
@pytest.mark.parametrize("num_epochs", [1, 10])
def test_every_shipped_schedule_has_usable_rates_for_any_number_of_epochs(name, num_epochs):
    built = schedule(
        composed(f"scheduler={name}"), num_updates=23 * num_epochs, updates_per_epoch=23
    )

    assert all(0 < built(updates) <= 0.5 for updates in range(23 * num_epochs))


def test_the_command_line_swaps_the_schedule_inside_a_warmup():
    def swapped(*more):
        return schedule(composed("scheduler=warmup", *more))

    swap = "scheduler@scheduler.schedule"
    more = "scheduler.schedule.final_lr=0.125", "scheduler.warmup_updates=3"
    assert swapped() == Warmup(Cosine(0.5, 100), 10)
    assert swapped(f"{swap}=linear") == Warmup(Linear(0.5, 0.0, 100), 10)
    assert swapped(f"{swap}=linear", *more) == Warmup(Linear(0.5, 0.125, 100), 3)
    assert swapped(f"{swap}=sequential").schedule == schedule(composed("scheduler=sequential"))


def test_a_mistyped_schedule_inside_a_warmup_is_answered_by_the_nearest():
    overrides = ["scheduler=warmup", "scheduler@scheduler.schedule=liner"]

    assert mistakes.explain(overrides, CONF, Exception("unexplained"))[0].startswith(
        "scheduler=liner: no such scheduler; did you mean 'linear'?"
    )

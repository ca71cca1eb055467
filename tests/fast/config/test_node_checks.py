"""Nodes are checked against the signatures of their targets, and the nodes of conf/ pass."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from andiron.shell.config import node_checks, schema
from andiron.shell.config.signatures import signature

ROOT = Path(__file__).resolve().parents[3]
OF_PYTHON = {"name", "console"}  # arguments that only callers in Python give
OF_EARLIER_RECORDS = {"units"}


def stated(node: dict[str, Any]) -> dict[str, Any]:
    """The node with what its defaults list brings in: `/group@argument: choice` states that
    argument.
    """
    entries = [
        key for entry in node.get("defaults", []) if isinstance(entry, dict) for key in entry
    ]
    brought = [key.partition("@")[2] for key in entries if not key.startswith("override ")]
    return {key: value for key, value in node.items() if key != "defaults"} | dict.fromkeys(brought)


def conf_nodes() -> dict[str, dict[str, Any]]:
    """Every node with a `_target_` in a file of conf/, by its place."""
    result: dict[str, dict[str, Any]] = {}

    def collect(where: str, value: Any) -> None:
        foreign = "torchmetrics."  # an extra, which states its own arguments
        if isinstance(value, dict) and not str(value.get("_target_", foreign)).startswith(foreign):
            result[where] = stated(value)
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
                value, list,
            ) else ()
        )  # fmt: skip
        for key, inner in items:
            collect(f"{where} {key}", inner)

    for path in sorted((ROOT / "conf").glob("*/*.yaml")):
        collect(
            path.relative_to(ROOT).as_posix(),
            OmegaConf.to_container(OmegaConf.load(path), resolve=False),
        )
    return result


CONF_NODES = conf_nodes()
BROUGHT = {"data", "schedule"}  # by a defaults list


def settable(where: str, target: str) -> dict[str, Any]:
    """The arguments that a node of this group may state, without those that the run fills in."""
    result = signature(target)
    assert result is not None, target
    left_out = OF_PYTHON | OF_EARLIER_RECORDS | node_checks.SUPPLIED.get(where.split("/")[1], set())
    return {
        name: parameter
        for name, parameter in result.parameters.items()
        if name not in left_out or name in CONF_NODES[where]
    }


def test_a_conf_node_states_every_argument_of_its_target_and_no_other():
    offenders = {
        where: set(node) - {"_target_"} ^ set(settable(where, node["_target_"]))
        for where, node in CONF_NODES.items()
    }

    assert {where: names for where, names in offenders.items() if names} == {}


def test_every_value_in_conf_fits_the_type_of_its_argument():
    elsewhere = ("${", "=???", "no value; give one", *(f"{name}=None" for name in BROUGHT))
    lines = [
        line
        for where, node in CONF_NODES.items()
        for line in node_checks.problems({where.split("/")[1]: node}).values()
    ]

    assert [line for line in lines if not any(text in line for text in elsewhere)] == []


def test_every_argument_of_andirons_own_in_conf_has_a_type():
    offenders = [
        f"{where}: {name}"
        for where, node in CONF_NODES.items()
        for name, parameter in settable(where, node["_target_"]).items()
        if parameter.kind is Any
    ]

    assert offenders == []


def test_nodes_in_lists_and_arguments_from_defaults_lists_are_checked():
    assert "conf/scheduler/sequential.yaml schedules 1" in CONF_NODES
    assert set(CONF_NODES["conf/scheduler/warmup.yaml"]) == {
        "_target_", "schedule", "warmup_updates",
    }  # fmt: skip


COSINE = {
    "_target_": "andiron.schedules.Cosine", "initial_lr": 0.1, "min_lr": 0.0, "num_updates": None,
}  # fmt: skip
STEP = {
    "_target_": "andiron.schedules.Step", "initial_lr": 0.1, "step_size": "2epochs", "gamma": 0.5,
}  # fmt: skip


def said(scheduler: dict[str, Any]) -> list[str]:
    """The problems of this scheduler."""
    return [
        line
        for option, line in schema.problems({"scheduler": scheduler}).items()
        if option.startswith("scheduler.")
    ]


def warmup(schedule: Any, **changes: Any) -> dict[str, Any]:
    return {
        "_target_": "andiron.schedules.Warmup", "schedule": schedule, "warmup_updates": 3,
        **changes,
    }  # fmt: skip


def sequential(*schedules: Any, milestones: Any = ()) -> dict[str, Any]:
    return {
        "_target_": "andiron.schedules.Sequential", "schedules": list(schedules),
        "milestones": list(milestones),
    }  # fmt: skip


def test_a_sound_node_within_nodes_has_no_problems():
    assert said(warmup(sequential(COSINE, warmup(STEP), milestones=["0.5epochs"]))) == []


@pytest.mark.parametrize(
    "value", [1, 100, "1epoch", "2epochs", "0.5epochs", "0.05epochs", "10epochs"]
)
def test_a_number_of_updates_may_be_said_in_epochs(value):
    assert said({**COSINE, "num_updates": value}) == []
    assert said({**STEP, "step_size": value}) == []
    assert said(warmup(COSINE, warmup_updates=value)) == []


UPDATES = "should be a number of updates (100) or of epochs (2epochs, 0.5epochs)"
NODES = "should be a list of nodes, each a _target_ and its arguments"
INVALID = (
    "0epochs", "0.0epochs", "-1epochs", "2 epochs", "epochs", "2epoch s", "two epochs", "", 1.5,
    True, [3],
)  # fmt: skip


@pytest.mark.parametrize(("node", "lines"), [
    *[({**COSINE, "num_updates": value}, [f"num_updates={value}: {UPDATES}"]) for value in INVALID],
    ({**COSINE, "num_updates": "2"},
     [f"num_updates=2: {UPDATES}; this is a text: "
      "${oc.decode:${oc.env:NAME}} reads its value"]),
    *[({**STEP, "step_size": value}, [f"step_size={value}: should be greater than or equal to 1"])
      for value in (0, -3)],
    (sequential(COSINE, STEP, COSINE, milestones=["1epoch", "3"]),
     [f"milestones=['1epoch', '3']: {UPDATES} (item 1)"]),
    # by the full path
    (warmup({**STEP, "gamma": 0.0}), ["schedule.gamma=0.0: should be greater than 0"]),
    (sequential(COSINE, {**STEP, "gama": 0.5}, milestones=[5]),
     ["schedules.1.gama: no such option; did you mean 'gamma'?"]),
    (warmup(sequential(warmup({**COSINE, "min_lr": -1})), warmup_updates=-1),
     ["warmup_updates=-1: should be greater than or equal to 0",
      "schedule.schedules.0.schedule.min_lr=-1: should be greater than or equal to 0"]),
    ({"_target_": "mine.Schedule", "parts": {"first": [COSINE, {**STEP, "step_size": 0}]},
      "gamma": 3}, ["parts.first.1.step_size=0: should be greater than or equal to 1"]),
    *[(warmup(inside), [f"schedule={inside}: should be a _target_ and its arguments, or a "
                        "function's dotted name"])
      for inside in (0.1, "linear", None, {"gamma": 0.5})],
    *[(sequential(COSINE, inside), [f"schedules={[COSINE, inside]}: {NODES}"])
      for inside in (0.1, "linear", None, {"gamma": 0.5})],
    (warmup({**STEP, "_target_": None}),
     ["schedule._target_=None: names no class or function; give its dotted name, such as "
      "torch.optim.Adam"]),
    ({"_target_": "andiron.schedules.Composed", "schedules": [], "reduction": "sum"},
     [f"schedules=[]: {NODES}"]),
])  # fmt: skip
def test_a_problem_within_nodes_is_reported_by_its_place(node, lines):
    assert said(node) == [f"scheduler.{line}" for line in lines]


@pytest.mark.parametrize("name, choice", [("StepLR", "step"), ("CosineAnnealingLR", "cosine")])
def test_a_scheduler_of_torch_leads_to_the_choice_here(name, choice):
    (line,) = said({"_target_": f"torch.optim.lr_scheduler.{name}", "step_size": 3})
    assert line.startswith(f"scheduler._target_=torch.optim.lr_scheduler.{name}: ")
    assert line.endswith(f"; did you mean {choice!r}?")

"""Every schema of a config node says what the signature it describes says, and the conf files keep to both."""

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import hydra.utils
import pytest
from omegaconf import OmegaConf

from andiron.config import nodes

ROOT = Path(__file__).resolve().parents[2]
SWITCHES = {"foreach", "fused", "maximize", "capturable", "differentiable", "decoupled_weight_decay"}  # how, not what
SUPPLIED = {  # by the run, or by who uses the class in Python
    "andiron.models": {"input_shape", "num_classes"},
    "andiron.render": {"console"},
    "torch.optim": {"params", "lr"} | SWITCHES,
}
TARGETS = sorted(nodes.SCHEMAS)


def parameters(target: str) -> dict[str, inspect.Parameter]:
    """What the callable takes, less what the config has no say in."""
    supplied = SUPPLIED.get(target.rpartition(".")[0], set())
    taken = inspect.signature(hydra.utils.get_object(target)).parameters
    return {name: parameter for name, parameter in taken.items() if name not in supplied}


def fields(target: str) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(nodes.SCHEMAS[target])}


def conf_nodes() -> dict[str, dict[str, Any]]:
    """Every node with a `_target_` in a file of conf/, by where it stands."""
    found: dict[str, dict[str, Any]] = {}

    def collect(where: str, value: Any) -> None:
        if isinstance(value, dict):
            if "_target_" in value:
                found[where] = value
            for key, inner in value.items():
                collect(f"{where} {key}", inner)

    for path in sorted((ROOT / "conf").glob("*/*.yaml")):
        collect(path.relative_to(ROOT).as_posix(), OmegaConf.to_container(OmegaConf.load(path), resolve=False))
    return found


CONF_NODES = conf_nodes()


@pytest.mark.parametrize("target", TARGETS)
def test_a_schema_has_the_arguments_of_its_callable(target):
    assert set(fields(target)) == set(parameters(target))


@pytest.mark.parametrize("target", TARGETS)
def test_a_schemas_defaults_are_the_callables_own(target):
    given = {name: field.default for name, field in fields(target).items() if field.default is not dataclasses.MISSING}

    assert given == {name: parameters(target)[name].default for name in given}


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_callable_insists_on_the_schema_insists_on(target):
    insisted = {name for name, parameter in parameters(target).items() if parameter.default is parameter.empty}

    assert insisted <= {name for name, field in fields(target).items() if field.default is dataclasses.MISSING}


def test_every_optimizer_schema_has_torchs_default_for_every_argument():
    for target in TARGETS:
        if target.startswith("torch.optim."):
            assert all(field.default is not dataclasses.MISSING for field in fields(target).values()), target


@pytest.mark.parametrize("where", CONF_NODES)
def test_a_node_of_a_conf_file_states_exactly_what_its_schema_has(where):
    node = CONF_NODES[where]

    assert set(node) - {"_target_"} == set(fields(node["_target_"]))


def test_every_schema_is_used_by_a_conf_file():
    assert {node["_target_"] for node in CONF_NODES.values()} == set(TARGETS)

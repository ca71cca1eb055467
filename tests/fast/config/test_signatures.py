"""A table has the arguments of shipped targets; the user's own are imported and asked."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from andiron import ranges
from andiron.shell.config.signatures import Signature, signature

MODULES = {
    "__init__.py": "from .layers import Wide as Network",
    "layers.py": """
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Generic, Protocol, TypeVar

import attr
import torch
from huggingface_hub import PyTorchModelHubMixin
from pydantic import Field
from torch import nn

from andiron.ranges import Count as Layers

Width = Annotated[int, Field(ge=8)]


class Wide(nn.Module):
    def __init__(self, width: Width, depth: Layers = 2, *, act: Callable[[nn.Module], nn.Module],
                 sizes: Sequence[int] = (), bias: bool = None, weight: torch.Tensor | None = None):
        ...

    @classmethod
    def of(cls, width: Width, **others): ...


class Narrow(Wide):
    pass


@dataclass
class Options(Generic[TypeVar("T")]):
    size: int
    kind: ClassVar[str] = "x"
    steps: typing.Optional[int] = None
    names: list[str] = field(default_factory=list)
    made: int = field(init=False)


class Named:
    pass


class Mixed(Named, Wide):
    pass


class Hidden:
    def __new__(cls, width: int): ...


class Assigned:
    __init__ = Wide.__init__


class Registered(metaclass=type("Meta", (type,), {})):
    def __init__(self, width: int): ...


@attr.s(auto_attribs=True)
class Attributes:
    width: int


class Size(Protocol):
    width: int


class Sized(Size):
    def __init__(self, width: int): ...


class Shared(PyTorchModelHubMixin, nn.Module):
    def __init__(self, width: int): ...
""",
}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """The signature of a name in a package of the user's."""
    package = tmp_path / "signatures_of_mine"
    package.mkdir()
    for name, text in MODULES.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name: signature(f"signatures_of_mine.{name}")


def kinds(actual: Signature | None) -> dict[str, Any]:
    assert actual is not None
    return {name: parameter.kind for name, parameter in actual.parameters.items()}


def test_every_correct_class_takes_its_arguments(read):
    wide = ["width", "depth", "act", "sizes", "bias", "weight"]
    for name in ("layers.Wide", "layers.Narrow", "layers.Mixed", "layers.Assigned", "Network"):
        assert [*kinds(read(name))] == wide
    for name in ("Hidden", "Registered", "Attributes", "Sized", "Shared"):
        assert [*kinds(read(f"layers.{name}"))] == ["width"], name


def test_annotations_mean_ranges_and_aliases_of_the_users_own(read):
    result = kinds(read("layers.Wide"))

    assert result["depth"] == ranges.Count
    assert TypeAdapter(result["width"]).json_schema() == {"type": "integer", "minimum": 8}
    assert result["act"] == ranges.Function
    assert result["sizes"] == list[int]
    assert result["bias"] == bool | None


def test_a_method_that_makes_one_takes_other_arguments_too(read):
    result = read("layers.Wide.of")

    assert result is not None and result.is_open_ended
    assert TypeAdapter(kinds(result)["width"]).json_schema() == {"type": "integer", "minimum": 8}


def test_fields_of_a_dataclass_are_the_arguments_of_its_constructor(read):
    assert kinds(read("layers.Options")) == {"size": int, "steps": int | None, "names": list[str]}


def test_a_missing_target_has_no_signature(read):
    names = ("layers.Missing", "layers.Wide.missing", "nowhere.Wide", "layers.typing", "layers")
    assert [read(name) for name in names] == [None] * len(names)

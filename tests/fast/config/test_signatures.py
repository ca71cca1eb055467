"""Signatures of a user's own classes are read from their source without running it."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from andiron import ranges
from andiron.shell.config.signatures import Signature, signature

MODULES = {
    "__init__.py": "from . import layers\nfrom .layers import Wide as Network",
    "sized.py": "from signatures_of_mine import layers\n"
    "def sized(options: layers.Options, size: int): ...",
    "ranges_of_mine.py": "from pydantic import Field\nimport typing\n"
    "Width = typing.Annotated[int, Field(ge=8)]\n",
    "layers.py": """
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import torch
from torch import nn

from andiron.ranges import Count as Layers

from .ranges_of_mine import Width

raise RuntimeError("this module was imported")


class Wide(nn.Module):
    def __init__(self, width: Width, depth: Layers = 2, *, act: Callable[[nn.Module], nn.Module],
                 sizes: Sequence[int] = (), bias: bool = None, weight: torch.Tensor | None = None):
        ...

    @classmethod
    def of(cls, width: "Width", **others): ...


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
    def __new__(cls, *args, **kwargs): ...
    def __init__(self, width: int): ...


class Assigned:
    __init__ = Wide.__init__


class Registered(metaclass=type):
    def __init__(self, width: int): ...


@attrs.define
class Attributes:
    width: int


@dataclass
class Far(ranges_of_mine.Base):
    depth: int = 1


class Below(Mixed):
    pass
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


def kinds(found: Signature | None) -> dict[str, Any]:
    assert found is not None
    return {name: parameter.kind for name, parameter in found.parameters.items()}


def test_a_constructor_is_found_through_imports_and_bases(read):
    for name in ("layers.Wide", "layers.Narrow", "Network"):
        assert [*kinds(read(name))] == ["width", "depth", "act", "sizes", "bias", "weight"]


def test_annotations_mean_ranges_and_aliases_of_the_users_own(read):
    found = kinds(read("layers.Wide"))

    assert found["depth"] == ranges.Count
    assert TypeAdapter(found["width"]).json_schema() == {"type": "integer", "minimum": 8}
    assert TypeAdapter(found["act"]).json_schema() == TypeAdapter(ranges.Function).json_schema()
    assert found["sizes"] == list[int]
    assert found["bias"] == bool | None


def test_a_method_that_makes_one_takes_other_arguments_too(read):
    found = read("layers.Wide.of")

    assert found is not None and found.is_open_ended
    assert TypeAdapter(kinds(found)["width"]).json_schema() == {"type": "integer", "minimum": 8}


def test_fields_of_a_dataclass_are_the_arguments_of_its_constructor(read):
    assert kinds(read("layers.Options")) == {"size": int, "steps": int | None, "names": list[str]}


def test_a_module_that_its_package_imports_is_no_type(read):
    found = kinds(read("sized.sized"))  # was a RecursionError

    assert TypeAdapter(found["options"]).json_schema() == {} and found["size"] is int


def test_a_constructor_that_the_source_does_not_show_is_checked_after_the_import(read):
    hidden = ("Mixed", "Hidden", "Assigned", "Registered", "Attributes", "Far", "Below")
    assert {name: read(f"layers.{name}") for name in hidden} == dict.fromkeys(hidden)


def test_a_missing_target_has_no_signature(read):
    names = ("layers.Missing", "layers.Wide.missing", "nowhere.Wide", "layers.typing", "layers")
    assert [read(name) for name in names] == [None] * len(names)

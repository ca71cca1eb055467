"""The tables of shipped targets, signatures.json in conf/ and the lab's conf/: types as texts.

The targets are those that conf/ names, and the other public classes of the modules of these. The
types of Andiron's own are the annotations of their constructors. Those of other libraries stand in
conf/ behind each argument: `momentum: 0.9 # NonNegative; meaning`.
"""

import importlib
import inspect
import re
import types
import typing
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import torch
import yaml
from pydantic.fields import FieldInfo

import hydra.utils
from andiron import ranges
from andiron.shell.config import signatures

CONF = Path(__file__).resolve().parents[1] / "conf"
OF_THE_LAB = CONF.parent / "src" / "andiron_lab" / "conf"
COMMENT = re.compile(r"\s*(?:- )?(\w+):.*? # (.*)$")
NEEDED = re.compile(r"^# needs (\w+)", re.MULTILINE)
OWN = re.compile(r"[\s\[]andiron(?:_lab)?(?:\.\w+)+")
# what stands inside other nodes only
WITHOUT_A_FILE = (
    "andiron.checkpoint.AnyOf", "andiron.checkpoint.last_and_best", "andiron.metrics.Mean",
    "andiron.models.Dropout", "andiron.optim.Match", "andiron_lab.masks.OnFields",
)  # fmt: skip
CONSTANTS = ("higher_is_better", "sends_data")  # of classes
OF_THE_RUN = ("params", "lr")  # of an optimizer
NAMED = [
    (name, kind)
    for name, kind in vars(ranges).items()
    if name[0].isupper() and typing.get_origin(kind) is Annotated
]


def table(conf: Path = CONF) -> dict[str, dict[str, Any]]:
    """The entries of the targets that the files of a folder name, in alphabetical order."""
    named = {
        name.strip(" [")
        for path in conf.glob("*/*.yaml")
        for name in OWN.findall(re.sub("#.*", "", path.read_text(encoding="utf-8")))
    }
    package = "andiron_lab." if conf == OF_THE_LAB else "andiron."
    named |= {name for name in WITHOUT_A_FILE if conf.is_dir() and name.startswith(package)}
    objects = {name: hydra.utils.get_object(name) for name in named}
    modules = {object_.__module__ for object_ in objects.values()}
    for package in {name.rpartition(".")[0] for name in named}:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            is_beside = inspect.isclass(value) and value.__module__ in modules
            if is_beside or any(value is other for other in objects.values()):
                objects[f"{package}.{name}"] = value
    entries = of_other_libraries(conf) | {name: _entry(objects[name]) for name in objects}
    return dict(sorted(entries.items()))


def _entry(function: Any) -> dict[str, Any]:
    """The entry of a class or function of Andiron."""
    signature = inspect.signature(function, eval_str=True)  # some are written as text
    parameters = dict(signature.parameters)
    if inspect.isclass(function) and inspect.unwrap(function.__init__) is object.__init__:
        parameters = {}
    if inspect.isclass(function) and issubclass(function, torch.optim.Optimizer):
        parameters = {name: parameters[name] for name in parameters if name not in OF_THE_RUN}
    own = signatures.of_signature(signature)
    named = [name for name in parameters if name in own.parameters]
    entry = {
        "arguments": {name: text_of(own.parameters[name].kind) for name in named},
        "required": [name for name in named if parameters[name].default is inspect.Parameter.empty],
        "is_open_ended": bool(parameters) and own.is_open_ended,
    }
    constants = {name: getattr(function, name, None) for name in CONSTANTS}
    return entry | {
        name: constant for name, constant in constants.items() if isinstance(constant, bool)
    }


def text_of(kind: Any) -> str:
    """The type as an expression of names in `andiron.ranges`."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _annotated(kind)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    texts = ["..." if value is ... else text_of(value) for value in inner]
    if origin in (typing.Union, types.UnionType):
        return " | ".join(texts)
    if origin is not None:
        return f"{origin.__name__}[{', '.join(texts)}]"
    return "None" if kind in (None, type(None)) else str(getattr(kind, "__name__", kind))


def _annotated(kind: Any) -> str:
    """The name of a range, perhaps with further limits."""
    text, limits = "", kind.__metadata__
    for name, named in NAMED:
        known = named.__metadata__
        if named.__origin__ == kind.__origin__ and kind.__metadata__[: len(known)] == known:
            text, limits = name, kind.__metadata__[len(known) :]
    fields = [_field(limit) for limit in limits if not _is_conversion(limit)]
    text = text or text_of(kind.__origin__)
    return f"Annotated[{', '.join([text, *fields])}]" if fields else text


def _field(limits: Any) -> str:
    if not isinstance(limits, FieldInfo):
        raise ValueError(f"{limits}: give this type a name in andiron.ranges")
    given = [repr(limit).partition("(")[2].removesuffix(")") for limit in limits.metadata]
    return f"Field({', '.join(given)})"


def _is_conversion(limits: Any) -> bool:
    return isinstance(limits, pydantic.AfterValidator) and isinstance(limits.func, type)


@cache
def of_other_libraries(conf: Path = CONF) -> dict[str, dict[str, Any]]:
    """The entries of classes of other libraries."""
    entries = {}
    for path in sorted(conf.glob("*/*.yaml")):
        text = path.read_text(encoding="utf-8")
        needed = NEEDED.search(text)
        for node, comments in nodes(text):
            if not node["_target_"].startswith(("andiron", "torchmetrics.", "hydra_plugins.")):
                named = [name for name in node if name != "_target_"]
                arguments = {name: comments[name].partition(";")[0] for name in named}
                entry = {"arguments": arguments, "required": [], "is_open_ended": False}
                entries[node["_target_"]] = entry | ({"needs": needed[1]} if needed else {})
    return entries


def meanings(comments: dict[str, str]) -> dict[str, str]:
    """The comments behind the arguments of another library's class, without their types."""
    parted = {name: comment.partition("; ")[2] for name, comment in comments.items()}
    return {name: meaning for name, meaning in parted.items() if meaning}


def nodes(text: str) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """The nodes in a file, the outer before the inner, each with the comments of its arguments."""
    return _nodes(yaml.compose(text), text.splitlines())


def _nodes(tree: yaml.Node, lines: list[str]) -> list[tuple[dict[str, Any], dict[str, str]]]:
    if isinstance(tree, yaml.SequenceNode):
        return [node for item in tree.value for node in _nodes(item, lines)]
    if not isinstance(tree, yaml.MappingNode):
        return []
    inner = [node for _, item in tree.value for node in _nodes(item, lines)]
    if all(key.value != "_target_" for key, _ in tree.value):
        return inner
    behind = [COMMENT.match(lines[key.start_mark.line]) for key, _ in tree.value]
    own = yaml.constructor.SafeConstructor().construct_object(tree, deep=True)
    return [(own, {match[1]: match[2] for match in behind if match}), *inner]

"""The arguments of a `_target_`: of a shipped one from a table, of the user's own by importing it.

`conf/signatures.json`, which `scripts/generate_reference.py` writes, has every shipped target that
a configuration may name, so that torch is not imported to check a configuration of them.

>>> signature("andiron.models.MLP").parameters["input_shape"].is_required
True
"""

import inspect
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Optional, Union

from andiron import errors, ranges
from andiron.disk import files
from andiron.plain.plain_values import Named
from andiron.shell.config import project

# checked once they are built: their import takes seconds
FOREIGN_PACKAGES = {"timm", "torch", "torchvision", "torchmetrics", "transformers"}
PLAIN = (bool, int, float, str, list, tuple, dict, None, type(None), Any)


@dataclass(frozen=True)
class Parameter:
    """One argument: its type for pydantic, and whether a shipped target requires it."""

    kind: Any
    is_required: bool = False


@dataclass(frozen=True)
class Signature:
    """The arguments of a callable by name; an open-ended callable takes any others too."""

    parameters: dict[str, Parameter]
    is_open_ended: bool = False


@cache
def shipped() -> Mapping[str, Named]:
    """The table by target: types of its `arguments`, those `required`, and facts of its class."""
    tables = [folder / "signatures.json" for folder in project.shipped_conf_dirs()]
    return dict(ChainMap(*map(files.read_json, tables)))


@cache
def _of_shipped(target: str) -> Signature:
    entry = shipped()[target]
    parameters = {
        name: Parameter(eval(kind, vars(ranges)), name in entry["required"])
        for name, kind in entry["arguments"].items()
    }
    return Signature(parameters, entry["is_open_ended"])


def signature(target: str) -> Signature | None:
    """The arguments of the class or function at a dotted name; None for one to build first."""
    if target in shipped():
        return _of_shipped(target)
    if target.partition(".")[0] in FOREIGN_PACKAGES:
        return None
    try:
        return of_signature(inspect.signature(_imported(target)))
    except (ValueError, TypeError):  # it is missing, or does not tell its arguments
        return None


def class_constant(target: str, name: str) -> Any:
    """The value of a class attribute; None without one."""
    if target in shipped():
        return shipped()[target].get(name)
    return getattr(_imported(target), name, None)


def _imported(target: str) -> Any:
    """The object at a dotted name; None for a missing one, which the build reports."""
    import hydra.utils  # commands without a configuration do not need it
    from hydra.errors import HydraException

    try:
        with errors.exits_refused():
            return hydra.utils.instantiate({"_target_": target, "_partial_": True}).func
    except HydraException:
        return None


def of_signature(shown: inspect.Signature) -> Signature:
    """The arguments that Python shows of a class or function."""
    named, parameters = {}, shown.parameters.values()
    for parameter in parameters:
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            kind = kind_of(parameter.annotation)
            named[parameter.name] = Parameter(Optional[kind] if parameter.default is None else kind)
    return Signature(
        named, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    )


def kind_of(annotation: Any) -> Any:
    """The type of the values in a configuration for an annotated argument.

    An object of Andiron is a node, a function a node or its dotted name; any value passes for an
    object of another class.
    """
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in PLAIN or origin is Literal:
        return annotation
    if origin is Annotated:
        kind = kind_of(inner[0])
        return Any if kind is Any is not inner[0] else Annotated[kind, *annotation.__metadata__]
    if annotation is Callable or origin is Callable:
        return ranges.Function
    kinds: Any = tuple(item if item is ... else kind_of(item) for item in inner)
    if origin in (Union, types.UnionType):
        return Union[kinds]
    if origin in (list, Sequence, Iterable):
        return ranges.Nodes if kinds[0] in (ranges.Node, ranges.Function) else list[kinds]
    if origin in (tuple, dict, Mapping):
        return types.GenericAlias(tuple if origin is tuple else dict, kinds)
    is_own = inspect.isclass(annotation) and annotation.__module__.startswith("andiron.")
    return ranges.Node if is_own else Any

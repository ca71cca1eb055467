"""What the callable behind a `_target_` takes, read from its source: nothing is imported or run.

>>> signature("andiron.models.MLP").parameters["input_shape"].is_required
True
"""

import ast
import importlib.machinery
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Optional

import pydantic

from andiron import improvement, options, ranges
from andiron.config.foreign_ranges import FOREIGN_RANGES

KNOWN = (typing, pydantic, improvement, options, ranges)
KNOWN_MODULES = {module.__name__: module for module in KNOWN}
BUILTINS = {kind.__name__: kind for kind in (bool, dict, float, int, list, str, tuple)}
FOREIGN_PACKAGES = {"torch", "torchvision", "torchmetrics"}  # large sources without ranges
NOTHING_TO_READ = {"ABC", "Generic", "Protocol", "object"}  # bases without a constructor


class _UncheckedType(type):
    """Attributes, items and calls of an unchecked type are unchecked too."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, key: Any) -> type:
        return cls

    def __call__(cls, *args: Any, **kwargs: Any) -> type:
        return cls


class Unchecked(metaclass=_UncheckedType):
    """The type of an argument whose annotation names classes, such as Tensor: any value passes."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler.generate_schema(Any)


@dataclass(frozen=True)
class Parameter:
    """One argument: its type for pydantic, and whether the callable insists on it."""

    kind: Any
    is_required: bool = False


@dataclass(frozen=True)
class Signature:
    """The arguments of a callable by name; an open-ended one takes any others too."""

    parameters: dict[str, Parameter]
    is_open_ended: bool = False


@dataclass(frozen=True)
class Module:
    """A parsed source file: what is defined or imported at its top level, by name."""

    name: str
    is_package: bool
    definitions: dict[str, ast.stmt]

    def imported(self, statement: ast.ImportFrom) -> str:
        """The absolute name of the module from which a statement imports."""
        if not statement.level:
            return statement.module or ""
        package = self.name.split(".")
        package = package[: len(package) - statement.level + self.is_package]
        return ".".join([*package, *([statement.module] if statement.module else [])])


@cache
def signature(target: str) -> Signature | None:
    """The arguments of the class or function at a dotted name; None where its source tells none."""
    if target in FOREIGN_RANGES:
        return Signature({name: Parameter(kind) for name, kind in FOREIGN_RANGES[target].items()})
    if target.partition(".")[0] in FOREIGN_PACKAGES:
        return None
    module, attributes = _split(target)
    if module is None or not attributes:
        return None
    found = _definition(module, attributes[0])
    for name in attributes[1:]:
        found = found and _method(*found, name)
    return found and _signature(*found)


def _split(target: str) -> tuple[Module | None, list[str]]:
    """The longest part of a dotted name that is a module, and the names behind it."""
    names = target.split(".")
    module = None
    for number in range(1, len(names)):
        inner = _module(".".join(names[:number]))
        if inner is None:
            return module, names[number - 1 :]
        module = inner
    return module, names[-1:]


@cache
def _module(name: str) -> Module | None:
    path = _source(name)
    if path is None or path[0].suffix != ".py":
        return None
    try:
        tree = ast.parse(path[0].read_bytes())
    except (OSError, SyntaxError, ValueError):  # whoever imports it is told
        return None
    return Module(name, path[1], dict(_definitions(tree.body)))


@cache
def _source(name: str) -> tuple[Path, bool] | None:
    """The file of a module and whether it is a package, found without importing any parent."""
    parent, _, _ = name.rpartition(".")
    folders = None
    if parent:
        found = _source(parent)
        if found is None or not found[1]:
            return None
        folders = [str(found[0].parent)]
    for finder in sys.meta_path:
        spec = finder.find_spec(name, folders)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return Path(spec.loader.path), spec.submodule_search_locations is not None
    return None


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef():
                yield statement.name, statement
            case ast.ImportFrom() | ast.Import():
                yield from ((each.asname or each.name, statement) for each in statement.names)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case ast.If() | ast.Try():
                yield from _definitions([*statement.orelse, *statement.body])


def _definition(module: Module, name: str) -> tuple[Module, ast.stmt] | None:
    """Where a name of a module is defined: imports from one module to another are followed."""
    statement = module.definitions.get(name)
    if not isinstance(statement, ast.ImportFrom):
        return None if statement is None else (module, statement)
    original = next(each.name for each in statement.names if (each.asname or each.name) == name)
    origin = _module(module.imported(statement))
    return None if origin is None else _definition(origin, original)


def _method(module: Module, owner: ast.stmt, name: str) -> tuple[Module, ast.stmt] | None:
    found = isinstance(owner, ast.ClassDef) and dict(_definitions(owner.body)).get(name)
    return (module, found) if isinstance(found, ast.FunctionDef) else None


def _signature(module: Module, statement: ast.stmt) -> Signature | None:
    if isinstance(statement, ast.FunctionDef):
        names = {ast.unparse(each).split(".")[-1] for each in statement.decorator_list}
        return _arguments(module, statement.args, skipped=int("classmethod" in names))
    if not isinstance(statement, ast.ClassDef):
        return None
    if any("dataclass" in ast.unparse(each).partition("(")[0] for each in statement.decorator_list):
        return Signature(dict(_fields(module, statement)))
    constructor = _method(module, statement, "__init__")
    if constructor is not None:
        return _arguments(module, constructor[1].args, skipped=1)  # type: ignore[attr-defined]
    bases = [base for base in statement.bases if _last_name(base) not in NOTHING_TO_READ]
    if not bases:
        return Signature({})
    inherited = isinstance(bases[0], ast.Name) and _definition(module, bases[0].id)
    return _signature(*inherited) if inherited else None


def _last_name(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def _arguments(module: Module, arguments: ast.arguments, *, skipped: int) -> Signature:
    by_place = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(by_place) - len(arguments.defaults)), *arguments.defaults]
    found = [*zip(by_place, defaults)][skipped:] + [
        *zip(arguments.kwonlyargs, arguments.kw_defaults)
    ]
    parameters = {each.arg: _parameter(module, each.annotation, default) for each, default in found}
    return Signature(parameters, is_open_ended=arguments.kwarg is not None)


def _fields(module: Module, statement: ast.ClassDef) -> Iterator[tuple[str, Parameter]]:
    """The fields of a dataclass, those of its bases first."""
    for base in statement.bases:
        found = isinstance(base, ast.Name) and _definition(module, base.id)
        if found and isinstance(found[1], ast.ClassDef):
            yield from _fields(found[0], found[1])
    for field in statement.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        given = {each.arg: each.value for each in getattr(field.value, "keywords", [])}
        is_made = "init" in given and ast.unparse(given["init"]) == "False"
        if "ClassVar" not in ast.unparse(field.annotation) and not is_made:
            is_field = isinstance(field.value, ast.Call) and _last_name(field.value.func) == "field"
            default = given.get("default") or given.get("default_factory")
            default = default if is_field else field.value
            yield field.target.id, _parameter(module, field.annotation, default)


def _parameter(module: Module, annotation: ast.expr | None, default: ast.expr | None) -> Parameter:
    kind = _evaluated(module, annotation)
    kind = Optional[kind] if isinstance(default, ast.Constant) and default.value is None else kind
    return Parameter(kind, is_required=default is None)


def _evaluated(module: Module, annotation: ast.expr | None) -> Any:
    """The type that an annotation means; the names of classes mean `Unchecked`."""
    if annotation is None:
        return Unchecked
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    code = compile(ast.Expression(annotation), module.name, "eval")
    try:
        return eval(code, {"__builtins__": {}}, _Names(module))
    except (TypeError, ValueError, AttributeError, KeyError, SyntaxError):
        return Unchecked


class _Names(dict[str, Any]):
    """The names in the annotations of a module: ranges, typing's, and aliases of the module."""

    def __init__(self, module: Module):
        super().__init__(BUILTINS)
        self.module = module

    def __missing__(self, name: str) -> Any:
        statement = self.module.definitions.get(name)
        if isinstance(statement, ast.ClassDef) and self.module.name.startswith("andiron."):
            return ranges.Node  # a configuration can only give such an object as a node
        if isinstance(statement, ast.ImportFrom):
            return self._imported(self.module.imported(statement), name, statement)
        if isinstance(statement, ast.Assign) or (
            isinstance(statement, ast.AnnAssign) and statement.value is not None
        ):
            return _evaluated(self.module, statement.value)
        return (
            KNOWN_MODULES.get(name, Unchecked) if isinstance(statement, ast.Import) else Unchecked
        )

    def _imported(self, origin: str, name: str, statement: ast.ImportFrom) -> Any:
        original = next(each.name for each in statement.names if (each.asname or each.name) == name)
        if f"{origin}.{original}" in KNOWN_MODULES:
            return KNOWN_MODULES[f"{origin}.{original}"]
        if origin in KNOWN_MODULES:
            return getattr(KNOWN_MODULES[origin], original, Unchecked)
        if origin == "collections.abc":
            return STANDARD_TYPES.get(original, Unchecked)
        module = (
            _module(origin)
            if origin.partition(".")[0] == self.module.name.partition(".")[0]
            else None
        )
        return Unchecked if module is None else _Names(module)[original]


class _Callable:
    """A function in a configuration is a node, or the dotted name of a function."""

    def __class_getitem__(cls, key: Any) -> Any:
        return ranges.Function

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler.generate_schema(ranges.Function)


class _Array(list[Any]):
    """A sequence in a configuration is a list; a sequence of objects is a list of nodes."""

    def __class_getitem__(cls, item: Any) -> Any:
        return ranges.Nodes if item in (ranges.Node, ranges.Function) else list[item]


STANDARD_TYPES: dict[str, Any] = {
    "Callable": _Callable,
    "Iterable": _Array,
    "Mapping": dict,
    "Sequence": _Array,
}

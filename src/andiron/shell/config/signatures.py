"""The arguments of a `_target_`, read from its source: nothing is imported or run.

>>> signature("andiron.models.MLP").parameters["input_shape"].is_required
True
"""

import ast
import importlib.machinery
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Optional

import pydantic

from andiron import options, ranges
from andiron.plain import improvement
from andiron.shell.config.foreign_ranges import FOREIGN_RANGES

BUILTINS = {kind.__name__: kind for kind in (bool, dict, float, int, list, str, tuple)}
# large sources without ranges
FOREIGN_PACKAGES = {"timm", "torch", "torchvision", "torchmetrics", "transformers"}
NOTHING_TO_READ = {"ABC", "Generic", "Protocol", "object"}  # bases without a constructor


class _UncheckedType(type):
    """Attributes, items and calls of an unchecked type are unchecked too."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *args: Any, **kwargs: Any) -> type:
        return cls

    __getitem__ = __call__


class Unchecked(metaclass=_UncheckedType):
    """The type of an argument whose annotation names a class, such as Tensor: any value passes."""

    in_configuration: Any = Any

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler.generate_schema(cls.in_configuration)


class _Callable(Unchecked):
    """A function in a configuration is a node, or the dotted name of a function."""

    in_configuration = ranges.Function


class _Array(list[Any]):
    """A sequence in a configuration is a list; a sequence of objects is a list of nodes."""

    def __class_getitem__(cls, item: Any) -> Any:
        return ranges.Nodes if item in (ranges.Node, _Callable) else list[item]


IMPORTED = {  # names that annotations may take from these modules
    **{module.__name__: module for module in (typing, pydantic, improvement, options, ranges)},
    "collections.abc": types.SimpleNamespace(
        Callable=_Callable, Iterable=_Array, Mapping=dict, Sequence=_Array
    ),
}


@dataclass(frozen=True)
class Parameter:
    """One argument: its type for pydantic, and whether a class of Andiron requires it."""

    kind: Any
    is_required: bool = False


@dataclass(frozen=True)
class Signature:
    """The arguments of a callable by name; an open-ended callable takes any others too."""

    parameters: dict[str, Parameter]
    is_open_ended: bool = False


class Module(dict[str, Any]):
    """A parsed source file; as a dict, it maps the names in annotations to types."""

    def __init__(self, name: str, definitions: "Definitions"):
        super().__init__(BUILTINS)
        self.name, self.definitions = name, definitions
        self.is_own = name.startswith("andiron.")

    def find(self, name: str) -> "Located | None":
        """The definition of a name; imports from other modules are followed."""
        statement = self.definitions.get(name)
        if isinstance(statement, str):  # a module has no definition
            return None if _spec(statement) else _locate(statement)
        return None if statement is None else (self, statement)

    def __missing__(self, name: str) -> Any:
        match self.definitions.get(name):
            case ast.ClassDef() if self.is_own:
                return ranges.Node  # a configuration can only give such an object as a node
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return _evaluate(self, value)
            case str() as imported:
                return self._imported_type(imported)
        return Unchecked

    def _imported_type(self, name: str) -> Any:
        origin, _, attribute = name.rpartition(".")
        if name in IMPORTED:
            return IMPORTED[name]
        if origin in IMPORTED:
            return getattr(IMPORTED[origin], attribute, Unchecked)
        is_near = origin.partition(".")[0] == self.name.partition(".")[0]
        module = _module(origin) if is_near and not _spec(name) else None
        return Unchecked if module is None else module[attribute]


@cache
def signature(target: str) -> Signature | None:
    """The arguments of the class or function at a dotted name; None if its source is not read."""
    if target in FOREIGN_RANGES:
        return Signature({name: Parameter(kind) for name, kind in FOREIGN_RANGES[target].items()})
    is_read = target.partition(".")[0] not in FOREIGN_PACKAGES
    return _signature(_locate(target)) if is_read else None


def class_constant(target: str, name: str) -> Any:
    """The literal value of a class attribute, possibly of a first base; None without one."""
    match _member(_locate(target), name):
        case _, ast.Assign(value=ast.Constant(raw)) | ast.AnnAssign(value=ast.Constant(raw)):
            return raw
    return None


Definitions = dict[str, ast.stmt | str]  # for an imported name, its dotted name
Located = tuple[Module, ast.stmt]  # a statement, and its module


def _locate(target: str) -> Located | None:
    """The definition at a dotted name, in a module or in a class."""
    parent, _, name = target.rpartition(".")
    module = _module(parent) if parent else None
    if module is not None:
        return module.find(name)
    return _member(_locate(parent), name) if parent else None


def _member(owner: Located | None, name: str) -> Located | None:
    """The statement that gives a class this attribute, in its body or that of a first base."""
    match owner:
        case module, ast.ClassDef(bases=bases, body=body):
            statement = dict(_definitions(body)).get(name)
            if isinstance(statement, ast.stmt):
                return module, statement
            return _member(_first_base(module, bases), name)
    return None


def _first_base(module: Module, bases: list[ast.expr]) -> Located | None:
    match bases:
        case [ast.Name(name), *_]:
            return module.find(name)
    return None


@cache
def _module(name: str) -> Module | None:
    spec = _spec(name)
    if spec is None:
        return None
    try:
        tree = ast.parse(Path(str(spec.origin)).read_bytes())
    except (OSError, SyntaxError, ValueError):  # importing it reports the error
        return None
    return Module(name, dict(_definitions(tree.body, str(spec.parent))))


@cache
def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """The place of a module's source, found without importing any parent."""
    parent, _, _ = name.rpartition(".")
    outer = _spec(parent) if parent else None
    folders = outer.submodule_search_locations if outer else None
    if parent and not folders:
        return None
    for finder in sys.meta_path:
        spec = finder.find_spec(name, folders)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return spec
    return None


def _definitions(body: list[ast.stmt], package: str = "") -> Iterator[tuple[str, ast.stmt | str]]:
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef():
                yield statement.name, statement
            case ast.ImportFrom(module, names, level):
                outer = package.rsplit(".", level - 1)[0] if level else ""
                origin = f"{outer}.{module or ''}".strip(".")
                yield from ((item.asname or item.name, f"{origin}.{item.name}") for item in names)
            case ast.Import(names):
                yield from ((item.asname or item.name, item.name) for item in names)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case ast.If() | ast.Try():
                yield from _definitions([*statement.orelse, *statement.body], package)


def _signature(definition: Located | None) -> Signature | None:
    match definition:
        case module, ast.FunctionDef(args=arguments):
            return _arguments(module, arguments)
        case module, ast.ClassDef() as statement if module.is_own or _is_readable(statement):
            if "dataclass" in " ".join(map(ast.unparse, statement.decorator_list)):
                return Signature(dict(_fields(module, statement)))
            constructor = dict(_definitions(statement.body)).get("__init__")
            if isinstance(constructor, ast.FunctionDef):
                return _arguments(module, constructor.args)
            bases = _bases(statement)
            return _signature(_first_base(module, bases)) if bases else Signature({})
    return None


def _is_readable(statement: ast.ClassDef) -> bool:
    """Whether its source alone shows the constructor of a class that is not Andiron's."""
    members, bases = dict(_definitions(statement.body)), _bases(statement)
    decorators = [ast.unparse(node) for node in statement.decorator_list]
    is_shown = isinstance(members.get("__init__"), ast.FunctionDef) and not decorators
    if "__init__" not in members:  # that of a base, or the fields of a dataclass
        is_shown = {*map(type, bases)} <= {ast.Name} and (len(bases) < 2 or bool(decorators))
    is_usual = all("dataclass" in decorator for decorator in decorators)
    return is_shown and is_usual and not statement.keywords and "__new__" not in members


def _bases(statement: ast.ClassDef) -> list[ast.expr]:
    return [base for base in statement.bases if _last_name(base) not in NOTHING_TO_READ]


def _last_name(expression: ast.expr) -> str:
    return ast.unparse(expression).partition("[")[0].rpartition(".")[2]


def _arguments(module: Module, arguments: ast.arguments) -> Signature:
    by_place = [*arguments.posonlyargs, *arguments.args]
    receiver = [argument for argument in by_place[:1] if argument.arg in ("self", "cls")]
    required = len(by_place) - len(arguments.defaults)
    defaults = [*[None] * required, *arguments.defaults, *arguments.kw_defaults]
    parameters = {
        argument.arg: _parameter(module, argument.annotation, default)
        for argument, default in zip([*by_place, *arguments.kwonlyargs], defaults)
        if argument not in receiver
    }
    return Signature(parameters, is_open_ended=arguments.kwarg is not None)


def _fields(module: Module, statement: ast.ClassDef) -> Iterator[tuple[str, Parameter]]:
    """The fields of a dataclass, after the fields of its bases."""
    for base in statement.bases:
        match _first_base(module, [base]):
            case origin, ast.ClassDef() as inherited:
                yield from _fields(origin, inherited)
    for field in statement.body:
        match field:
            case ast.AnnAssign(ast.Name(name), annotation, default):
                keywords = {item.arg: item.value for item in getattr(default, "keywords", [])}
                is_not_argument = "init" in keywords and ast.unparse(keywords["init"]) == "False"
                if is_not_argument or "ClassVar" in ast.unparse(annotation):
                    continue
                if isinstance(default, ast.Call) and _last_name(default.func) == "field":
                    default = keywords.get("default") or keywords.get("default_factory")
                yield name, _parameter(module, annotation, default)


def _parameter(module: Module, annotation: ast.expr | None, default: ast.expr | None) -> Parameter:
    kind = _evaluate(module, annotation)
    kind = Optional[kind] if isinstance(default, ast.Constant) and default.value is None else kind
    return Parameter(kind, is_required=module.is_own and default is None)


def _evaluate(module: Module, annotation: ast.expr | None) -> Any:
    """The type of an annotation; the names of classes give `Unchecked`."""
    if annotation is None:
        return Unchecked
    text = annotation.value if isinstance(annotation, ast.Constant) else None
    try:
        code = text if isinstance(text, str) else ast.unparse(annotation)
        return eval(code, {"__builtins__": {}}, module)
    except (TypeError, ValueError, AttributeError, KeyError, SyntaxError):
        return Unchecked

"""Builds the object of a configuration node, and fills in arguments that only the run knows.

`resolve` is the only place that turns the text of a `_target_` into a class or function.
"""

import functools
import inspect
import itertools
import math
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.error import URLError

import hydra.utils
import torch
from hydra.errors import HydraException

from andiron import errors, schedules
from andiron.plain import memory, wings
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import DOTTED_NAME, EPOCHS
from andiron.shell.config import node_checks, violations
from andiron.shell.config.signatures import FOREIGN_PACKAGES

LISTS = {"list", "Sequence", "Iterable"}  # types that take a list


def resolve(option: str, name: str) -> Any:
    """The class or function of this dotted name; `option` is its place, for messages.

    Hydra looks it up, so Hydra's policy for allowed names applies.
    Raises: ConfigError if there is none, or Hydra refuses it.
    """
    try:
        # the plain function: Hydra's deferred object checks its policy again at every call, 0.4 ms
        return hydra.utils.instantiate({"_target_": name, "_partial_": True}).func
    except HydraException as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise errors.ConfigError(
            f"{option}={name}: cannot be used: {cause}{_remedy(name, cause)}"
        ) from error


def refused(option: str, node: Named, why: str) -> errors.ConfigError:
    """The error for a target that does not fit its option."""
    return errors.ConfigError(f"{option}._target_={node['_target_']}: {why}")


def check_kind(option: str, node: Named, instance: object, is_right: bool, takes: str) -> None:
    """Raises ConfigError if an object is of the wrong kind; `takes` describes the right one."""
    if not is_right:
        is_plain = instance is None or isinstance(instance, bool | int | float | str)
        gives = repr(instance) if is_plain else f"an object of {type(instance).__name__}"
        raise refused(option, node, f"gives {gives}; {option} takes {takes}")


@contextmanager
def refusals_named(option: str, function: Any = None) -> Iterator[None]:
    """Turns a ValueError into a ConfigError, under the argument that its message begins with."""
    try:
        yield
    except ValueError as error:
        names = inspect.signature(function).parameters if function else ()
        is_argument = str(error).partition("=")[0] in names
        raise errors.ConfigError(f"{option}{'.' if is_argument else ': '}{error}") from error


def build(option: str, node: Named, /, **offered: Any) -> Any:
    """The result of calling the node's `_target_` with its arguments; nodes inside are built first.

    `offered` values fill parameters of the same name that the node omits or sets to null.
    Raises: ConfigError if the target cannot be used or its arguments do not fit its signature.
    """
    function, arguments = target_and_arguments(option, node, offered)
    if node.get("_partial_"):
        return functools.partial(function, **arguments)
    violations.check_arguments(option, function, arguments)
    offers: Iterator[Named] = itertools.repeat({})
    if "num_updates" in offered:  # a schedule: inner ones have their own lengths
        with refusals_named(option, function):
            lengths = schedules.inner_updates(function, offered["num_updates"], arguments)
        offers = ({"num_updates": length} for length in lengths)
    instance = _call(option, node, function, _build_nested(option, arguments, offers))
    schedules.warn_of_length(option, instance, offered.get("num_updates"))
    return instance


def build_instance(option: str, node: Named, kind: Any, takes: str, /, **offered: object) -> Any:
    """Builds a node; refuses an object of another `kind`, which `takes` describes."""
    instance = build(option, node, **offered)
    check_kind(option, node, instance, isinstance(instance, kind), takes)
    return instance


def build_each(
    group: str, nodes: Named | None, kind: object, takes: str, /, **offered: object
) -> Plain:
    """The instances of `kind` that the nodes of a group make, by name; some take their name."""
    instances = {}
    for name, node in (nodes or {}).items():
        own = {"name": name} if "name" in node_checks.SUPPLIED.get(group, ()) else {}
        instances[name] = build_instance(f"{group}.{name}", node, kind, takes, **offered, **own)
    return instances


def build_schedule(
    option: str, node: Named, *, num_updates: int, updates_per_epoch: int
) -> schedules.Schedule:
    """The schedule of the node; `num_updates` is its length if the node omits it.

    Lengths in epochs (`2epochs`) become updates. A schedule of schedules gives their lengths.
    Raises: ConfigError, also for arguments that a constructor refuses, a part that never runs, and
    no learning rate for the first update.
    """
    node = in_updates(node, updates_per_epoch)
    with refusals_named(option):  # of a user's class
        schedule: schedules.Schedule = build(option, node, num_updates=num_updates)
    check_kind(
        option, node, schedule, callable(schedule) and not isinstance(schedule, torch.nn.Module),
        "a function of the completed updates, which gives the learning rate",
    )
    lr: Any = schedule(0)
    if not (isinstance(lr, int | float) and lr >= 0 and math.isfinite(lr)):
        raise refused(
            option, node, f"gives {lr!r} for the first update; a learning rate is a finite number "
            "of 0 or more"
        )
    return schedule


def build_function(option: str, node: Named, num_given: int, named: Sequence[str] = ()) -> Any:
    """A callable of `num_given` values, and of those in `named` that it has as parameters.

    A function with open first parameters is used itself, with its other arguments bound; any other
    target is called to create the callable.
    Raises: ConfigError if the target cannot be used or refuses its arguments.
    """
    function, arguments = target_and_arguments(option, node, {})
    first = [*inspect.signature(function).parameters.values()][:num_given]
    given = {parameter.name: parameter for parameter in first if parameter.name not in arguments}
    has_defaults = any(parameter.default is not parameter.empty for parameter in given.values())
    is_called_later = bool(given) and not has_defaults and not inspect.isclass(function)
    later = [*given, *named] if is_called_later else []
    violations.check_arguments(option, function, arguments, later)
    if is_called_later:
        return functools.partial(function, **arguments)
    return _call(option, node, function, arguments)


def named_functions(
    parameters: Mapping[str, inspect.Parameter], arguments: Named
) -> dict[str, str]:
    """The arguments that are dotted names of functions, for parameters that take a function."""
    return {
        key: value
        for key, value in arguments.items()
        if isinstance(value, str) and DOTTED_NAME.fullmatch(value)
        if "Callable" in _type_names(parameters, key)
    }


def in_updates(value: object, updates_per_epoch: int) -> Any:
    """The value with every length in epochs, at any depth, in updates: at least 1, except 0."""
    if isinstance(value, Mapping):
        return {name: in_updates(item, updates_per_epoch) for name, item in value.items()}
    if isinstance(value, list):
        return [in_updates(item, updates_per_epoch) for item in value]
    if not isinstance(value, str) or (epochs := EPOCHS.fullmatch(value)) is None:
        return value
    updates = float(epochs[1]) * updates_per_epoch
    return max(int(updates > 0), round(updates))


def target_and_arguments(option: str, node: Named, offered: Named) -> tuple[Any, Plain]:
    """The node's callable, and its arguments with the offered ones among its parameters.

    Names become functions, and lists tuples or tensors, for parameters of these types.
    """
    function = resolve(f"{option}._target_", node["_target_"])
    arguments = node_checks.arguments_of(node)
    for key in arguments:
        if key.startswith("_"):
            raise errors.ConfigError(
                f"{option}.{key}: arguments go by name here; give each under its own"
            )
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise refused(
            option, node, "does not tell which arguments it takes; name a Python function or class"
        ) from error
    for key, value in named_functions(parameters, arguments).items():
        arguments[key] = resolve(f"{option}.{key}", value)
    for key, value in arguments.items():
        is_number = isinstance(value, list | int | float)
        allowed = _type_names(parameters, key) if is_number else set()
        if isinstance(value, list) and "tuple" in allowed and not allowed & LISTS:
            arguments[key] = tuple(value)  # YAML has no tuples; torchmetrics needs them
        elif {"Tensor"} <= allowed <= {"Tensor", "NoneType"}:  # as of the class weights of losses
            arguments[key] = torch.tensor(value, dtype=torch.float32)
    takes = {*parameters, *node_checks.PASSED_ON.get(node["_target_"].rpartition(".")[0], ())}
    unset = [key for key in offered if key in takes and arguments.get(key) is None]
    return function, arguments | {key: offered[key] for key in unset}


def _build_nested(option: str, value: object, offers: Iterator[Named]) -> Any:
    """The value with every node in it replaced by its object."""
    if isinstance(value, list | tuple):
        places = enumerate(value)
        return type(value)(_build_nested(f"{option}.{key}", item, offers) for key, item in places)
    if not isinstance(value, Mapping):
        return value
    if "_target_" in value:
        with refusals_named(option):
            return build(option, value, **next(offers))
    return {key: _build_nested(f"{option}.{key}", item, offers) for key, item in value.items()}


def _call(option: str, node: Named, function: Any, arguments: Named) -> Any:
    is_shipped = node_checks.is_shipped(node["_target_"])  # else the traceback is more useful
    try:
        with refusals_named(option, function) if is_shipped else nullcontext():
            return function(**arguments)
    except ModuleNotFoundError as error:  # an optional package, at its first use
        remedy = installation(error.name) if is_shipped and error.name else ""
        raise refused(option, node, f"{error}{remedy}") from error
    except (TypeError, ValueError) as error:
        if node["_target_"].partition(".")[0] not in FOREIGN_PACKAGES:
            raise
        raise refused(option, node, errors.first_line(error)) from error
    except URLError as error:
        raise refused(
            option, node, f"downloads weights, and that failed ({error.reason}); start the run "
            "with internet access"
        ) from error
    except (RuntimeError, MemoryError) as error:
        shortage = memory.shortage(error)
        if shortage is None:
            raise
        raise refused(option, node, f"{shortage}; make it smaller") from error


def _type_names(parameters: Mapping[str, inspect.Parameter], name: str) -> set[str]:
    """The names of the types that a parameter takes, without their arguments."""
    annotation = parameters[name].annotation if name in parameters else None
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    allowed = typing.get_args(annotation) if is_union else (annotation,)
    return {getattr(typing.get_origin(value) or value, "__name__", "") for value in allowed}


def _remedy(name: str, cause: str) -> str:
    """How to install a missing package, or the nearest name in the module."""
    module, _, attribute = name.rpartition(".")
    package = name.partition(".")[0]
    is_known = node_checks.is_shipped(name) or package in FOREIGN_PACKAGES
    if is_known and f"No module named '{package}'" in cause:
        return installation(package)
    if hint := wings.lab_hint(name):
        return hint
    if module not in sys.modules:
        return (
            "; name one in a module that Python finds: beside train.py, installed, or on PYTHONPATH"
        )
    if hasattr(sys.modules[module], attribute):
        return "; name a function or class of your own module"
    return errors.nearest(attribute, dir(sys.modules[module]))


def installation(module: str) -> str:
    """The remedy for a missing optional package, which has its module's name."""
    return f"; it comes with `pip install {module.replace('_', '-')}`"

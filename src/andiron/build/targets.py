"""From a node of the configuration to the object it names, with what only the run knows filled in.

`resolve` is the only place that turns the text of a `_target_` into a class or function.
"""

import functools
import inspect
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import hydra.utils
from hydra.errors import HydraException

from andiron import errors, schedules
from andiron.config import node_checks
from andiron.config.foreign_ranges import EXTRAS
from andiron.ranges import DOTTED_NAME, EPOCHS

Node = Mapping[str, Any]
Offered = Mapping[str, Any]  # values by parameter name
# what is offered to each node inside a node: of its function, arguments and what itself is offered
Inside = Callable[[Any, Offered, Offered], Iterator[Offered]]


def resolve(option: str, name: str) -> Any:
    """The class or function of this dotted name; `option` is where it stands, for messages.

    Hydra looks it up, so its policy on what a configuration may name holds.
    Raises: ConfigError if there is none, or Hydra refuses it.
    """
    try:
        # the plain function: Hydra's deferred object checks its policy again at every call, 0.4 ms
        return hydra.utils.instantiate({"_target_": name, "_partial_": True}).func
    except HydraException as error:
        cause = " ".join(str(error.__cause__ or error).split())
        problem = f"{option}={name}: cannot be used: {cause}{_remedy(name, cause)}"
        raise errors.ConfigError([problem]) from error


def build(option: str, node: Node, **offered: Any) -> Any:
    """The result of calling the node's `_target_` with its arguments; nodes inside are built first.

    `offered` values fill the parameters of the same name that the node leaves out or null.
    Raises: ConfigError if the target cannot be used or its arguments do not fit its signature.
    """
    return _built(option, node, offered, _nothing)


def build_schedule(
    option: str, node: Node, *, num_updates: int, updates_per_epoch: int
) -> schedules.Schedule:
    """The schedule that the node names; `num_updates` is its length where the node leaves it out.

    Lengths in epochs (`2epochs`) become updates. A schedule that contains schedules says how long
    each of them is.
    Raises: ConfigError, also for what a constructor refuses and for a part that never runs.
    """

    def inside(function: Any, arguments: Offered, offered: Offered) -> Iterator[Offered]:
        lengths = schedules.inner_updates(function, offered["num_updates"], arguments)
        return ({"num_updates": length} for length in lengths)

    node = in_updates(node, updates_per_epoch)
    try:
        schedule = _built(option, node, {"num_updates": num_updates}, inside)
    except ValueError as error:  # of a user's own class
        raise errors.ConfigError([f"{option}: {error}"]) from error
    if callable(schedule):
        return typing.cast(schedules.Schedule, schedule)
    name = f"{option}._target_={node['_target_']}"
    problem = f"gives {schedule!r}, no schedule; return a function of the completed updates"
    raise errors.ConfigError([f"{name}: {problem}"])


def build_function(option: str, node: Node, num_given: int, named: Sequence[str] = ()) -> Any:
    """An object that is called with `num_given` values, and those of `named` that it knows.

    A function whose first parameters are still open is taken as it is, with its other arguments
    bound; anything else that the node names makes the object. Lists become tensors where the
    callable takes tensors, as losses take class weights.
    Raises: ConfigError if the target cannot be used or does not take its arguments.
    """
    function, arguments = _resolved(option, node, {})
    parameters = inspect.signature(function).parameters
    for name, value in arguments.items():
        is_tensor = name in parameters and _admits_tensors(parameters[name].annotation)
        arguments[name] = _tensor(value) if is_tensor and isinstance(value, list) else value
    given = [each for each in [*parameters.values()][:num_given] if each.name not in arguments]
    if inspect.isclass(function) or any(each.default is not each.empty for each in given):
        given = []
    later = [each.name for each in given] + ([*named] if given else [])
    _check_arguments(option, function, arguments, later)
    if given:
        return functools.partial(function, **arguments)
    return _called(option, node["_target_"], function, arguments)


def in_updates(value: Any, updates_per_epoch: int) -> Any:
    """The value with every length in epochs, at any depth, turned into updates: at least 1."""
    if isinstance(value, Mapping):
        return {name: in_updates(each, updates_per_epoch) for name, each in value.items()}
    if isinstance(value, list):
        return [in_updates(each, updates_per_epoch) for each in value]
    epochs = EPOCHS.fullmatch(value) if isinstance(value, str) else None
    return max(1, round(float(epochs[1]) * updates_per_epoch)) if epochs else value


def _nothing(function: Any, arguments: Offered, offered: Offered) -> Iterator[Offered]:
    return itertools.repeat({})


def _built(option: str, node: Node, offered: Offered, inside: Inside) -> Any:
    function, arguments = _resolved(option, node, offered)
    if node.get("_partial_"):
        return functools.partial(function, **arguments)
    _check_arguments(option, function, arguments)
    try:
        offers = inside(function, arguments, offered)
    except ValueError as error:
        raise _as_problem(option, function, error) from error
    for name, value in arguments.items():
        arguments[name] = _with_objects(f"{option}.{name}", value, offers, inside)
    return _called(option, node["_target_"], function, arguments)


def _resolved(option: str, node: Node, offered: Offered) -> tuple[Any, dict[str, Any]]:
    """The callable that the node names, and its arguments with the offered ones that it knows."""
    name = node["_target_"]
    function = resolve(f"{option}._target_", name)
    arguments = {key: value for key, value in node.items() if key not in ("_target_", "_partial_")}
    for key in arguments:
        if key.startswith("_"):
            problem = f"{option}.{key}: arguments go by name here; give each under its own"
            raise errors.ConfigError([problem])
    try:
        known = inspect.signature(function).parameters
    except ValueError as error:
        problem = f"{option}._target_={name}: does not tell which arguments it takes"
        raise errors.ConfigError([f"{problem}; name a Python function or class"]) from error
    for key, value in arguments.items():
        if isinstance(value, str) and DOTTED_NAME.fullmatch(value) and key in known:
            if any(Callable in _origins(each) for each in _alternatives(known[key].annotation)):
                arguments[key] = resolve(f"{option}.{key}", value)
    is_open = {key for key in known if arguments.get(key) is None}
    return function, arguments | {key: offered[key] for key in offered if key in is_open}


def _with_objects(option: str, value: Any, offers: Iterator[Offered], inside: Inside) -> Any:
    """The value with every node in it replaced by the object that it names."""
    if isinstance(value, Mapping):
        if "_target_" in value:
            try:
                return _built(option, value, next(offers), inside)
            except ValueError as error:
                raise errors.ConfigError([f"{option}: {error}"]) from error
        items = value.items()
        return {key: _with_objects(f"{option}.{key}", each, offers, inside) for key, each in items}
    if isinstance(value, list):
        places = enumerate(value)
        return [_with_objects(f"{option}.{key}", each, offers, inside) for key, each in places]
    return value


def _called(option: str, name: str, function: Any, arguments: Mapping[str, Any]) -> Any:
    try:
        return function(**arguments)
    except ValueError as error:
        if not node_checks.is_shipped(name):  # of a user's own, the traceback tells more
            raise
        raise _as_problem(option, function, error) from error


def _as_problem(option: str, function: Any, error: ValueError) -> errors.ConfigError:
    """A constructor's refusal as a ConfigError, under the argument that its message begins with."""
    is_argument = str(error).partition("=")[0] in inspect.signature(function).parameters
    return errors.ConfigError([f"{option}{'.' if is_argument else ': '}{error}"])


def _check_arguments(
    option: str, function: Any, arguments: Mapping[str, Any], later: Sequence[str] = ()
) -> None:
    """Refuses unknown and missing arguments; those of `later` are given at each call."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = [p for p in parameters if p.kind in kinds and p.name not in later]
    names = [p.name for p in named]
    is_open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    title = function.__qualname__
    problems = [
        f"{option}.{name}: {title} has no such argument"
        + (errors.nearest(name, names) or f"; it takes: {', '.join(names)}")
        for name in arguments
        if name not in names and not is_open_ended
    ]
    problems += [
        f"{option}.{p.name}: {title} needs it; give one as +{option}.{p.name}=..."
        for p in named
        if p.default is p.empty and p.name not in arguments
    ]
    if problems:
        raise errors.ConfigError(problems)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _origins(annotation: Any) -> tuple[Any, Any]:
    return annotation, typing.get_origin(annotation)


def _admits_tensors(annotation: Any) -> bool:
    """Whether it is a tensor, or a tensor or None."""
    names = {getattr(each, "__name__", "") for each in _alternatives(annotation)}
    return "Tensor" in names and names <= {"Tensor", "NoneType"}


def _tensor(values: list[float]) -> Any:
    import torch  # here, because the configuration is checked before torch is imported

    return torch.tensor(values, dtype=torch.float32)


def _remedy(name: str, cause: str) -> str:
    """How to get a package that is missing, or the nearest name in the module."""
    for module, package in EXTRAS.items():
        if f"No module named '{module}'" in cause:
            return f"; it comes with `pip install {package}`"
    module, _, attribute = name.rpartition(".")
    if module not in sys.modules:
        return (
            "; name one in a module that Python finds: beside train.py, installed, or on PYTHONPATH"
        )
    if hasattr(sys.modules[module], attribute):
        return "; name a function or class of your own module"
    return errors.nearest(attribute, dir(sys.modules[module]))

"""From a config node to the object it names, with what only the run knows (sizes, parameters, horizon) filled in."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import hydra.utils
from hydra.errors import HydraException

from andiron import errors, schedules
from andiron.config import node_checks
from andiron.config.foreign_ranges import EXTRAS
from andiron.ranges import EPOCHS


def build(option: str, node: dict[str, Any], **offered: Any) -> Any:
    """The result of calling the node's `_target_` with its arguments.

    `offered` values go to parameters of the same name that the node leaves out or null; the callable takes those
    it knows. `option` is where the node stands in the config, for messages.
    Raises: ConfigError if the target cannot be imported or its arguments do not fit its signature.
    """
    target = function(option, node)
    arguments = _filled(option, target, node["_target_"], offered)
    _check_arguments(option, target.func, arguments)
    return _called(option, node["_target_"], target.func, arguments)


def _called(
    option: str, name: str, target: Callable[..., Any], arguments: Mapping[str, Any]
) -> Any:
    try:
        return target(**arguments)
    except ValueError as error:
        if not node_checks.is_shipped(name):  # of a user's own, the traceback tells more
            raise
        raise errors.ConfigError([f"{option}: {error}"]) from error


def build_schedule(
    option: str, node: dict[str, Any], *, num_updates: int, updates_per_epoch: int
) -> schedules.Schedule:
    """The schedule that the node names; the schedules inside it are built first.

    A number of updates may be said in epochs (`2epochs`): rounded, and 1 at least. `num_updates` goes where a horizon
    is left out or null; to a schedule inside a Sequential goes the number of updates between its milestones.
    Raises: ConfigError, also for what a constructor refuses and for what begins after the last update.
    """
    schedule: schedules.Schedule = _schedule(option, node, num_updates, updates_per_epoch)
    if not callable(schedule):
        name = f"{option}._target_={node['_target_']}"
        raise errors.ConfigError(
            [f"{name}: gives {schedule!r}, no schedule; return a function of the completed updates"]
        )
    return schedule


def build_loss(option: str, node: dict[str, Any]) -> Any:
    """The loss that the node names: an object of its class, or its function with everything but outputs and targets given.

    Lists become tensors where the callable takes those, as torch's losses do their class weights.
    Raises: ConfigError if the target cannot be imported or does not take its arguments.
    """
    target = function(option, node)
    parameters = inspect.signature(target.func).parameters
    arguments = dict(target.keywords)
    for name, value in arguments.items():
        if (
            isinstance(value, list)
            and name in parameters
            and _is_tensor(parameters[name].annotation)
        ):
            arguments[name] = _tensor(value)
    is_class = inspect.isclass(target.func)
    _check_arguments(option, target.func, arguments, num_given=0 if is_class else 2)
    return (
        _called(option, node["_target_"], target.func, arguments)
        if is_class
        else functools.partial(target.func, **arguments)
    )


def _tensor(values: list[float]) -> Any:
    import torch  # here, because the config is checked before torch is there

    return torch.tensor(values, dtype=torch.float32)


def _is_tensor(annotation: Any) -> bool:
    """Whether it is a tensor, or a tensor or None."""
    names = {getattr(each, "__name__", "") for each in typing.get_args(annotation) or (annotation,)}
    return "Tensor" in names and names <= {"Tensor", "NoneType"}


def function(option: str, node: dict[str, Any]) -> functools.partial[Any]:
    """The node's `_target_` and its own arguments, not yet called.

    Hydra resolves it, so its policy on what a config may name holds; its deferred object would check that policy
    again at every call (0.4 ms), so only the plain function leaves here.
    """
    for name in node:
        if name.startswith("_") and name != "_target_":
            raise errors.ConfigError(
                [f"{option}.{name}: arguments go by name here; give each under its own"]
            )
    try:
        deferred = hydra.utils.instantiate({**node, "_partial_": True, "_convert_": "all"})
    except HydraException as error:
        cause = " ".join(str(error.__cause__ or error).split())
        lacking = [
            package for module, package in EXTRAS.items() if f"No module named '{module}'" in cause
        ]
        remedy = f"; it comes with `pip install {lacking[0]}`" if lacking else ""
        raise errors.ConfigError(
            [f"{option}._target_={node['_target_']}: cannot be used: {cause}{remedy}"]
        ) from error
    return functools.partial(
        deferred.func, **{name: _plain(value) for name, value in deferred.keywords.items()}
    )


def _plain(argument: Any) -> Any:
    """A deferred object of Hydra's among the arguments (`_partial_: true`) as what it defers, for the same reason."""
    if isinstance(argument, functools.partial):
        return functools.partial(argument.func, *argument.args, **argument.keywords)
    return argument


def _schedule(option: str, node: dict[str, Any], num_updates: int, updates_per_epoch: int) -> Any:
    inner = {
        name: value for name, value in node.items() if _holds_nodes(value)
    }  # Hydra would turn objects into configs
    own = {
        name: in_updates(value, updates_per_epoch)
        for name, value in node.items()
        if name not in inner
    }
    target = function(option, own)
    arguments = _filled(option, target, node["_target_"], {"num_updates": num_updates})
    _check_arguments(option, target.func, arguments | inner)
    try:
        lengths = schedules.inner_updates(target.func, num_updates, arguments | inner)
        for name, value in inner.items():
            places = _places(f"{option}.{name}", value).items()
            built = [
                _schedule(*place, length, updates_per_epoch)
                for place, length in zip(places, lengths)
            ]
            arguments[name] = built if isinstance(value, list) else built[0]
        return target.func(**arguments)
    except ValueError as error:
        names_argument = str(error).partition("=")[0] in inspect.signature(target.func).parameters
        raise errors.ConfigError([f"{option}{'.' if names_argument else ': '}{error}"]) from error


def _places(path: str, value: Any) -> dict[str, dict[str, Any]]:
    """The nodes of an argument, by where they stand."""
    return (
        {f"{path}.{number}": each for number, each in enumerate(value)}
        if isinstance(value, list)
        else {path: value}
    )


def _holds_nodes(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(each, dict) and "_target_" in each for each in values)


def in_updates(value: Any, updates_per_epoch: int) -> Any:
    """The value with every horizon in epochs turned into updates."""
    if isinstance(value, dict):
        return {name: in_updates(each, updates_per_epoch) for name, each in value.items()}
    if isinstance(value, list):
        return [in_updates(each, updates_per_epoch) for each in value]
    epochs = EPOCHS.fullmatch(value) if isinstance(value, str) else None
    return max(1, round(float(epochs[1]) * updates_per_epoch)) if epochs else value


def _filled(
    option: str, target: functools.partial[Any], name: str, offered: Mapping[str, Any]
) -> dict[str, Any]:
    """The target's arguments, with those offered values that it knows and has none for."""
    try:
        known = inspect.signature(target.func).parameters
    except ValueError as error:
        raise errors.ConfigError(
            [
                f"{option}._target_={name}: does not tell which arguments it takes; name a Python function or class"
            ]
        ) from error
    return {
        **target.keywords,
        **{
            key: value
            for key, value in offered.items()
            if key in known and target.keywords.get(key) is None
        },
    }


def _check_arguments(
    option: str, target: Any, arguments: dict[str, Any], *, num_given: int = 0
) -> None:
    """Refuses what the target does not take or lacks; its first `num_given` parameters are given at each call."""
    parameters = list(inspect.signature(target).parameters.values())[num_given:]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [] if open_ended else [name for name in arguments if name not in names]
    missing = [
        p.name
        for p in parameters
        if p.name in names and p.default is p.empty and p.name not in arguments
    ]
    problems = [
        f"{option}.{name}: {target.__qualname__} has no such argument"
        + (errors.nearest(name, names) or f"; it takes: {', '.join(names)}")
        for name in unknown
    ] + [
        f"{option}.{name}: {target.__qualname__} needs it; give one as +{option}.{name}=..."
        for name in missing
    ]
    if problems:
        raise errors.ConfigError(problems)

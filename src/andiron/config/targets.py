"""From a config node to the object it names, with what only the run knows (sizes, parameters, horizon) filled in."""

import functools
import inspect
from typing import Any

import hydra.utils
from hydra.errors import HydraException

from andiron import errors


def build(option: str, node: dict[str, Any], **offered: Any) -> Any:
    """The result of calling the node's `_target_` with its arguments.

    `offered` values go to parameters of the same name that the node leaves out or null; the callable takes those
    it knows. `option` is where the node stands in the config, for messages.
    Raises: ConfigError if the target cannot be imported or its arguments do not fit its signature.
    """
    target = function(option, node)
    try:
        known = inspect.signature(target.func).parameters
    except ValueError as error:
        raise errors.ConfigError(
            [f"{option}._target_={node['_target_']}: does not tell which arguments it takes; name a Python function or class"]
        ) from error
    fitting = {name: value for name, value in offered.items() if name in known and target.keywords.get(name) is None}
    arguments = {**target.keywords, **fitting}
    _check_arguments(option, target.func, arguments)
    return target.func(**arguments)


def function(option: str, node: dict[str, Any]) -> functools.partial[Any]:
    """The node's `_target_` and its own arguments, not yet called.

    Hydra resolves it, so its policy on what a config may name holds; its deferred object would check that policy
    again at every call (0.4 ms), so only the plain function leaves here.
    """
    for name in node:
        if name.startswith("_") and name != "_target_":
            raise errors.ConfigError([f"{option}.{name}: arguments go by name here; give each under its own"])
    try:
        deferred = hydra.utils.instantiate({**node, "_partial_": True, "_convert_": "all"})
    except HydraException as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise errors.ConfigError([f"{option}._target_={node['_target_']}: cannot be used: {cause}"]) from error
    return functools.partial(deferred.func, **deferred.keywords)


def _check_arguments(option: str, target: Any, arguments: dict[str, Any]) -> None:
    parameters = inspect.signature(target).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [] if open_ended else [name for name in arguments if name not in names]
    missing = [p.name for p in parameters if p.name in names and p.default is p.empty and p.name not in arguments]
    problems = [
        f"{option}.{name}: {target.__qualname__} has no such argument"
        + (errors.nearest(name, names) or f"; it takes: {', '.join(names)}")
        for name in unknown
    ] + [f"{option}.{name}: {target.__qualname__} needs it; give one as +{option}.{name}=..." for name in missing]
    if problems:
        raise errors.ConfigError(problems)

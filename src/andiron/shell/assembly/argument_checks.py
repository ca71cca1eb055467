"""Whether a callable takes the arguments that a configuration gives it, and gets all it needs."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from andiron import errors


def check(
    option: str, function: Any, arguments: Mapping[str, Any], later: Sequence[str] = ()
) -> None:
    """Refuses unknown and missing arguments; `later` ones are passed at each call.

    Raises: ConfigError.
    """
    parameters = inspect.signature(function).parameters
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {
        name: each
        for name, each in parameters.items()
        if each.kind in kinds and name not in later
    }
    is_open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    # a decorated function may take more than it shows, as the configurations of transformers do
    outer = inspect.signature(function, follow_wrapped=False).parameters.values()
    takes_others = any(each.kind is each.VAR_KEYWORD for each in outer)
    title = function.__qualname__
    problems = [
        f"{option}: {title} takes {name!r} by position, and arguments go by name here; name a "
        f"class or function that makes what {option} takes"
        for name, each in parameters.items()
        if each.kind is each.POSITIONAL_ONLY and each.default is each.empty and name not in later
    ]
    problems += [
        f"{option}.{name}: {title} has no such argument"
        + (errors.nearest(name, named) or f"; it takes: {', '.join(named)}")
        for name in arguments
        if name not in named and not is_open_ended
        if not takes_others or errors.nearest(name, named)
    ]
    problems += [
        f"{option}.{name}: {title} needs it; give one as +{option}.{name}=..."
        for name, each in named.items()
        if each.default is each.empty and name not in arguments
    ]
    if problems:
        raise errors.ConfigError(problems)

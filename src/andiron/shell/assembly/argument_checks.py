"""Whether a callable takes the arguments that a configuration gives it, and gets all it needs."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from andiron import errors
from andiron.shell.config import violations
from andiron.shell.config.signatures import Parameter, Signature


def check(
    option: str, function: Any, arguments: Mapping[str, Any], later: Sequence[str] = ()
) -> None:
    """Refuses unknown and missing arguments; `later` ones are passed at each call.

    Raises: ConfigError.
    """
    parameters = inspect.signature(function).parameters.values()
    named = {
        each.name: Parameter(Any, each.default is each.empty)
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name not in later
    }
    # a decorated function may take more than it shows, as the configurations of transformers do
    outer = inspect.signature(function, follow_wrapped=False).parameters.values()
    is_open, takes_others = (
        any(each.kind is each.VAR_KEYWORD for each in shown) for shown in (parameters, outer)
    )
    given = [
        name for name in arguments
        if name in named or not takes_others or errors.nearest(name, named)
    ]  # fmt: skip
    expected = Signature(named, is_open)
    problems = violations.signature_problems(expected, dict.fromkeys(given), f"{option}.")
    if problems:
        raise errors.ConfigError(problems.values())

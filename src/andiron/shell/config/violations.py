"""Checks plain values against a signature; the problems are error messages."""

import json
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, TypeVar

import pydantic

from andiron import errors, ranges
from andiron.shell.config.signatures import Signature, fields_of

Schema = TypeVar("Schema")
Options = Mapping[str, Any]  # values by name
Problems = dict[str, str]  # a line for each option
UNKNOWN = ": no such option"  # follows the name of an unknown option


def checked(schema: type[Schema], values: Options, prefix: str) -> Schema:
    """The dataclass `schema` with these values.

    Raises: ConfigError with all values that do not fit.
    """
    problems = signature_problems(fields_of(schema), values, prefix)  # type: ignore[arg-type]
    if problems:
        raise errors.ConfigError(problems.values())
    return schema(**values)


def signature_problems(
    expected: Signature, values: Options, prefix: str, supplied: Collection[str] = ()
) -> Problems:
    """A line for each option of `values` that does not fit or is missing, by its dotted name.

    `supplied` options come from elsewhere: they may be missing, and messages do not offer them.
    """
    lines = {}
    for name, parameter in expected.parameters.items():
        if name in values:
            problem = _type_problem(parameter.kind, values[name])
            if problem:
                lines[name] = f"={values[name]}: {problem}"
        elif parameter.is_required and name not in supplied:
            lines[name] = f": no value; give one as {prefix}{name}=..."
    allowed = [name for name in expected.parameters if name not in supplied]
    for name in () if expected.is_open_ended else values:
        if name not in expected.parameters:
            extra = "" if prefix else "; + adds others only for an interpolation"
            hint = errors.nearest(name, allowed) or f"; allowed here: {', '.join(allowed)}{extra}"
            lines[name] = f"{UNKNOWN}{hint}"
    return {f"{prefix}{name}": f"{prefix}{name}{reason}" for name, reason in lines.items()}


def _type_problem(kind: Any, value: Any) -> str:
    """Why a value is not of this type; empty if it is."""
    try:
        # through JSON: strict mode then accepts a list for a tuple, and converts nothing else
        adapter(kind).validate_json(json.dumps(value, default=str))
    except pydantic.ValidationError as error:
        first = error.errors()[0]  # of a member of a union
        item = next((part for part in first["loc"] if isinstance(part, int)), None)
        if first["type"] == "missing":
            return f"item {item} is missing"
        place = "" if item is None else f" (item {item})"
        return f"should be {ranges.allowed_values(error)}{place}"
    return ""


@cache
def adapter(kind: Any) -> Any:
    """The validator of a type; for a type unknown to pydantic, it accepts any value."""
    try:
        return pydantic.TypeAdapter(kind, config=pydantic.ConfigDict(strict=True))
    except (pydantic.PydanticUserError, TypeError):
        return pydantic.TypeAdapter(Any)

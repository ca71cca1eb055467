"""Checks plain values against a signature; the problems are error messages."""

import dataclasses
import difflib
import inspect
import json
import typing
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import pydantic

from andiron import errors, ranges
from andiron.plain.plain_values import Named, Plain
from andiron.shell.config import quoting
from andiron.shell.config.signatures import Parameter, Signature

Schema = TypeVar("Schema")
Problems = dict[str, str]  # a line for each option, often a Problem
UNKNOWN = ": no such option"  # follows the name of an unknown option


def checked(schema: type[Schema], values: Named, prefix: str) -> Schema:
    """The dataclass `schema` with these values.

    Raises: ConfigError with all values that do not fit.
    """
    problems = signature_problems(fields_of(schema), values, prefix)  # type: ignore[arg-type]
    if problems:
        raise errors.ConfigError(problems.values())
    return schema(**values)


@cache
def fields_of(schema: type) -> Signature:
    """The fields of an imported dataclass."""
    kinds = typing.get_type_hints(schema, include_extras=True)
    return Signature(
        {  # without a default both are MISSING
            field.name: Parameter(kinds[field.name], field.default is field.default_factory)
            for field in dataclasses.fields(schema)
        }
    )


def signature_problems(
    expected: Signature, values: Named, prefix: str, supplied: Collection[str] = ()
) -> Problems:
    """A line for each option of `values` that does not fit or is missing, by its dotted name.

    `supplied` options come from elsewhere: they may be missing, and messages do not offer them.
    """
    problems: Problems = {}

    def add(kind: str, name: str, reason: str, **fields: Any) -> None:
        option, value = f"{prefix}{name}", values.get(name)
        line = option + reason
        problems[option] = errors.Problem(line, kind=kind, option=option, value=value, **fields)

    for name, parameter in expected.parameters.items():
        if name in values:
            problem = _type_problem(parameter.kind, values[name])
            if problem:
                reason, allowed = f"={values[name]}: {problem}", _json_schema(parameter.kind)
                reason += _quoted(f"{prefix}{name}", values[name], parameter.kind)
                add("invalid_value", name, reason, allowed=allowed)
        elif parameter.is_required and name not in supplied:
            reason = f": no value; give one as {prefix}{name}=..."
            add("missing_value", name, reason, allowed=_json_schema(parameter.kind))
    known = [name for name in expected.parameters if name not in supplied]
    for name in () if expected.is_open_ended else values:
        if name not in expected.parameters:
            extra = "" if prefix else "; + adds others only for an interpolation"
            names = ", ".join(known) or f"nothing (~{prefix}{name} removes it)"
            hint = errors.nearest(name, known) or f"; allowed here: {names}{extra}"
            near = errors.choices(prefix + name, [prefix + entry for entry in known])
            add("unknown_option", name, f"{UNKNOWN}{hint}", **near)
    return problems


def check_arguments(
    option: str, function: Any, arguments: Named, later: Sequence[str] = ()
) -> None:
    """Refuses unknown and missing arguments; `later` ones are passed at each call.

    Raises: ConfigError.
    """
    parameters = inspect.signature(function).parameters.values()
    named = {
        parameter.name: Parameter(Any, parameter.default is parameter.empty)
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in later
    }
    # a decorated function may take more than it shows, as the configurations of transformers do
    outer = inspect.signature(function, follow_wrapped=False).parameters.values()
    is_open, takes_others = (
        any(parameter.kind is parameter.VAR_KEYWORD for parameter in shown)
        for shown in (parameters, outer)
    )
    given = [
        name for name in arguments
        if name in named or not takes_others or difflib.get_close_matches(name, named)
    ]  # fmt: skip
    expected = Signature(named, is_open)
    problems = signature_problems(expected, dict.fromkeys(given), f"{option}.")
    if problems:
        raise errors.ConfigError(problems.values())


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


def _quoted(option: str, value: object, kind: Any) -> str:
    """The remedy for a number where a text is accepted, or for its text, as of oc.env."""
    with suppress(ValueError):
        if isinstance(value, str) and not _type_problem(kind, json.loads(value)):
            return "; this is a text: ${oc.decode:${oc.env:NAME}} reads its value"
    text = json.dumps(value, default=str)
    if isinstance(value, str | list | dict) or _type_problem(kind, text):
        return ""
    return f"; {quoting.remedy(quoting.override(option, text))}"


def _json_schema(kind: Any) -> Plain | None:
    """The JSON Schema of a type; None for one that JSON lacks, such as a function."""
    try:
        schema: Plain = adapter(kind).json_schema()
    except pydantic.errors.PydanticInvalidForJsonSchema:
        return None
    return schema


@cache
def adapter(kind: Any) -> Any:
    """The validator of a type; for a type unknown to pydantic, it accepts any value."""
    try:
        return pydantic.TypeAdapter(kind, config=pydantic.ConfigDict(strict=True))
    except (pydantic.PydanticUserError, TypeError):
        return pydantic.TypeAdapter(Any)

"""How plain values differ from the signature that they should fit, as error messages."""

import json
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, TypeVar

import pydantic

from andiron import errors
from andiron.config.signatures import Signature, fields_of

Schema = TypeVar("Schema")
Options = Mapping[str, Any]  # values by name
Problems = dict[str, str]  # a line for each option
UNKNOWN = ": no such option"  # behind an option that has no such name


def checked(schema: type[Schema], given: Options, prefix: str) -> Schema:
    """The dataclass `schema` with these values.

    Raises: ConfigError with all that do not fit.
    """
    problems = found(fields_of(schema), given, prefix)  # type: ignore[arg-type]
    if problems:
        raise errors.ConfigError(problems.values())
    return schema(**given)


def found(
    takes: Signature, given: Options, prefix: str, supplied: Collection[str] = ()
) -> Problems:
    """A line for each option of `given` that does not fit or is missing, by its dotted name.

    Those of `supplied` come from elsewhere: they may be missing, and no message offers them.
    """
    complaints: Problems = {}
    for name, parameter in takes.parameters.items():
        if name in given:
            misfit = _misfit(parameter.kind, given[name])
            if misfit:
                complaints[name] = f"={given[name]}: {misfit}"
        elif parameter.is_required and name not in supplied:
            complaints[name] = f": no value; give one as {prefix}{name}=..."
    offered = [name for name in takes.parameters if name not in supplied]
    for name in () if takes.is_open_ended else given:
        if name not in takes.parameters:
            hint = errors.nearest(name, offered) or f"; allowed here: {', '.join(offered)}"
            complaints[name] = f"{UNKNOWN}{hint}"
    return {f"{prefix}{name}": f"{prefix}{name}{why}" for name, why in complaints.items()}


def _misfit(kind: Any, value: Any) -> str:
    """Why a value is not of this type; empty if it is."""
    try:
        # through JSON: strict mode then accepts a list for a tuple, and converts nothing else
        _adapter(kind).validate_json(json.dumps(value, default=str))
    except pydantic.ValidationError as error:
        details = error.errors()  # one for each alternative of a union
    else:
        return ""
    item = next((part for part in details[0]["loc"] if isinstance(part, int)), None)
    if details[0]["type"] == "missing":
        return f"item {item} is missing"
    allowed = " or ".join(dict.fromkeys(map(_allowed, details)))
    return f"should be {allowed}" + ("" if item is None else f" (item {item})")


@cache
def _adapter(kind: Any) -> Any:
    """The validator of a type; one of a type that pydantic does not know accepts any value."""
    try:
        return pydantic.TypeAdapter(kind, config=pydantic.ConfigDict(strict=True))
    except (pydantic.PydanticUserError, TypeError):
        return pydantic.TypeAdapter(Any)


def _allowed(detail: Any) -> str:
    allowed = str(detail["msg"]).removeprefix("Input should be ")
    # pydantic's word for a list is JSON's
    return "a list, in brackets: [...]" if allowed == "a valid array" else allowed

"""How plain values differ from the dataclass that describes them, as error messages."""

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pydantic

from andiron import errors

DEVICES = "auto, cpu, mps, cuda or cuda:<index>"


@cache
def adapter(schema: type) -> Any:
    """The validator of a dataclass; building one takes pydantic some milliseconds."""
    return pydantic.TypeAdapter(schema)


def found(schema: type, plain: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """A line for each option of `plain` that does not fit `schema`, by its dotted name."""
    names = [
        field.name
        for field in dataclasses.fields(schema)
        if not field.metadata.get("is_supplied")  # by the run
    ]
    try:
        # through JSON: strict mode then accepts a list for a tuple, and converts nothing else
        adapter(schema).validate_json(json.dumps(plain, default=str))
    except pydantic.ValidationError as error:
        by_option: dict[str, list[Any]] = {}  # a union has one error for each alternative
        for detail in error.errors():
            by_option.setdefault(str(detail["loc"][0]), []).append(detail)
        return {
            prefix + name: _line(details, prefix, names, plain)
            for name, details in by_option.items()
        }
    return {}


def _line(details: list[Any], prefix: str, names: list[str], plain: Mapping[str, Any]) -> str:
    name, *inner = details[0]["loc"]
    option = f"{prefix}{name}"
    if details[0]["type"] == "unexpected_keyword_argument":
        hint = errors.nearest(name, names) or f"; allowed here: {', '.join(names)}"
        return f"{option}: no such option{hint}"
    if details[0]["type"] == "missing" and not inner:
        return f"{option}: no value; give one as {option}=..."
    item = next((part for part in inner if isinstance(part, int)), None)
    if details[0]["type"] == "missing":
        return f"{option}={plain[name]}: item {item} is missing"
    allowed = " or ".join(dict.fromkeys(_allowed(detail) for detail in details))
    return f"{option}={plain[name]}: should be {allowed}" + (
        "" if item is None else f" (item {item})"
    )


def _allowed(detail: Any) -> str:
    if detail["type"] == "string_pattern_mismatch":
        return DEVICES
    return str(detail["msg"]).removeprefix("Input should be ")

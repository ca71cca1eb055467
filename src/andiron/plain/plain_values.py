"""Plain values by name; numbers, times and text of untrusted records.

>>> is_number(True), is_number(10**400), is_finite(float("nan")), as_text([8, 16])
(False, False, False, '[8,16]')
>>> strict_json({"loss": float("nan"), "best": [0.5, float("-inf")]})
'{"loss": null, "best": [0.5, null]}'
"""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeGuard

Number = int | float
Plain = dict[str, Any]  # of JSON, YAML or Python
Named = Mapping[str, Any]  # values by name, to be read


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a plain value is a number in the range of a float; infinity and NaN count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < 2**1023


def is_finite(value: object) -> TypeGuard[Number]:
    """Whether a plain value is a finite number."""
    return is_number(value) and math.isfinite(value)


def as_text(value: object) -> str:
    """An option's value for display: text unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def strict_json(value: object, indent: int | None = None) -> str:
    """A plain value as JSON for any parser; NaN and infinity, which JSON lacks, are null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
        return json.dumps(finite, indent=indent)


def or_nan(value: object) -> Any:
    """A value that `strict_json` wrote: NaN for null."""
    return math.nan if value is None else value


def moment(value: Any) -> datetime | None:
    """A recorded time; None if it is not a time, or has no time zone."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None

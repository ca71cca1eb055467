"""Plain values of untrusted records: numbers, times, text.

>>> is_number(True), is_number(10**400), is_finite(float("nan")), as_text([8, 16])
(False, False, False, '[8,16]')
"""

import json
import math
from datetime import datetime
from typing import Any, TypeGuard

Number = int | float


def is_number(value: Any) -> TypeGuard[Number]:
    """Whether a plain value is a number in the range of a float; infinity and NaN count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < 2**1023


def is_finite(value: Any) -> TypeGuard[Number]:
    """Whether a plain value is a finite number."""
    return is_number(value) and math.isfinite(value)


def as_text(value: Any) -> str:
    """An option's value for display: text unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def moment(value: Any) -> datetime | None:
    """A recorded time; None if it is not a time, or has no time zone."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None

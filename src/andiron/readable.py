"""Numbers, durations and long lists as people read them.

>>> duration(200), number(0.12345), number(1e-9)
('3m20s', '0.1235', '1.000e-09')
"""

from collections.abc import Sequence
from typing import Any

MOST_LISTED = 20  # lines in a message
MOST_SHOWN = 60  # characters of a value


def number(value: float) -> str:
    """The number with four decimals, or with its power of ten where these would show nothing."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m20s` or `2h05m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def listed(lines: Sequence[str]) -> str:
    """The first of the lines, indented, and how many more there are."""
    left = len(lines) - MOST_LISTED
    more = [f"and {left} more"] if left > 0 else []
    return "\n".join(f"  {line}" for line in [*lines[:MOST_LISTED], *more])


def shortened(value: Any) -> str:
    """The beginning of a value as Python writes it."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."

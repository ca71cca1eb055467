"""Numbers, durations, long lists and untrusted texts for people to read.

>>> duration(200), number(0.12345), number(1e-9)
('3m20s', '0.1235', '1.000e-09')
>>> joined([4, 7], 2), joined([4, 7, 9], 1), shortened("abcdef", 4)
('4, 7', '4, and 2 more', 'abc…')
"""

import re
from collections.abc import Sequence
from typing import Any

MOST_LISTED = 20  # lines in a message
# control characters except tab and newline, line separators, and Unicode's format characters,
# which are invisible or reorder the text around them. Joiners of emoji and words are allowed.
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e007f]"
)


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


def joined(words: Sequence[Any], most: int = 8) -> str:
    """The first words, and the number of the rest."""
    return ", ".join(_first(words, most))


def listed(lines: Sequence[str]) -> str:
    """The first lines, indented, and the number of the rest."""
    return "\n".join(f"  {line}" for line in _first(lines, MOST_LISTED))


def _first(words: Sequence[object], most: int) -> list[str]:
    more = [f"and {len(words) - most} more"] if len(words) > most else []
    return [*map(str, words[:most]), *more]


def name_of(function: object) -> str:
    """The name of a function or class; of another object that of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def shortened(text: str, most: int = 60) -> str:
    """The beginning of a text, at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def printable(text: str) -> str:
    """Untrusted text for a terminal, with invisible characters as escapes."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def printable_line(text: str) -> str:
    """Printable text on one line."""
    return printable(text.replace("\n", " ").replace("\t", " "))

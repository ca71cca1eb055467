"""Configured regular expressions, compiled and searched within a time limit.

Python's take exponential time for some, such as `(a+)+$`.

>>> [match[1] for match in searched(r"blocks[.](\\d+)", ["stem", "blocks.0", "blocks.1"]).values()]
['0', '1']
"""

import re
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

MOST_SECONDS = 1.0  # of this process's own time; a thousand names take a millisecond


def compiled(pattern: str) -> re.Pattern[str]:
    """The regular expression.

    Raises: ValueError if it is invalid.
    """
    try:
        with _time_limit(pattern):
            return re.compile(pattern)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a valid regex: {error}") from error


def searched(pattern: str, names: Iterable[str]) -> dict[str, re.Match[str]]:
    """The first match in each matching name.

    Raises: ValueError if `pattern` is not a valid regex, or takes too long.
    """
    expression = compiled(pattern)
    with _time_limit(pattern):
        matches = {name: expression.search(name) for name in names}
    return {name: match for name, match in matches.items() if match}


def replaced(pattern: str, new: str, names: Iterable[str]) -> list[tuple[str, int]]:
    """Each name with all matches replaced, and the number of matches; raises as `searched`."""
    expression = compiled(pattern)
    try:
        with _time_limit(pattern):
            return [expression.subn(new, name) for name in names]
    except (re.error, IndexError) as error:
        raise ValueError(f"{new!r} replaces no {pattern!r}: {error}") from error


@contextmanager
def _time_limit(pattern: str) -> Iterator[None]:
    """A context in which matching raises ValueError at the limit, in the main thread only.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise ValueError(
            f"{pattern!r} takes more than {MOST_SECONDS:.0f} second to match; repeat nothing that "
            "repeats inside, as (a+)+ does"
        )

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

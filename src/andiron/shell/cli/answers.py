"""The answer of a command under `--json`: objects on standard output, all else on standard error.

A command gives its result to `give`, or each object of a stream. For an error that ends it,
`wings.commands.error_answer` makes the answer. `conf/answers/` has the schemas.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from andiron.plain.plain_values import Named, strict_json

FLAG = "--json"
_outputs: list[Any] = [None]  # answers go to the last; None: there are none


class Points:
    """A writer (`andiron.protocols.Writer`) that answers with each log point."""

    def write(self, point: Any) -> None:
        """Gives the values of the point, named as in metrics.jsonl."""
        give({"point": {
            "over": "epoch" if point.whole_epoch else "window", "split": point.split,
            "updates": point.updates, "epoch": point.epoch, "values": point.values,
        }})  # fmt: skip

    def close(self) -> None:
        """Does nothing."""


def are_asked() -> bool:
    """Whether the command was given `--json`, and its answers are not silenced."""
    return _outputs[-1] is not None


def give(answer: Named) -> bool:
    """Prints an object on a line of its own, under `--json`; returns whether it did."""
    if are_asked():
        write(strict_json(answer) + "\n")
    return are_asked()


def write(text: str) -> None:
    """Writes whole lines of the result: to the answers or, without `--json`, to standard output."""
    output = _outputs[-1] or sys.stdout
    output.write(text)
    output.flush()


@contextmanager
def given_to(output: object) -> Iterator[None]:
    """Within the body answers go to this stream; None silences them, as for a job of a sweep."""
    _outputs.append(output)
    try:
        yield
    finally:
        _outputs.pop()

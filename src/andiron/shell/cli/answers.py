"""The answer of a command under `--json`: objects on standard output, all else on standard error.

A command gives its result to `give`, or each object of a stream; `process.Command` answers with
`error_object` for an error that ends it. `conf/answers/` has the schema that each command declares.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from andiron import errors
from andiron.errors import Problem
from andiron.plain.plain_values import Named, Plain
from andiron.plain.plain_values import strict_json

FLAG = "--json"
HEAD = re.compile(r"([\w@-][\w.@/~-]*)(?:=(.*?))?: (.*)", re.DOTALL)  # of a line about a problem
NEAREST = re.compile(r"did you mean '(.+?)'\?")
MISSING = re.compile("(?i)no such (file|folder)|not found|holds no|does not exist|no record format")
Entry = tuple[str, str]  # an option or flag, and its value
_outputs: list[Any] = [None]  # answers go to the last; None: there are none


class Parser(argparse.ArgumentParser):
    """Arguments of a command; `--json` is in its help, and turns a mistake into an answer."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        about = "print JSON objects only, as docs/commands.md describes"
        self.add_argument(FLAG, action="store_true", default=argparse.SUPPRESS, help=about)

    def error(self, message: str) -> NoReturn:
        """Ends the command, as `argparse.ArgumentParser` does; raises SelectionError for `--json`.
        """
        if not are_asked():
            super().error(message)
        fields: Plain = {}
        if unknown := message.partition("unrecognized arguments: ")[2].partition(" ")[0]:
            flags = [flag for action in self._actions for flag in action.option_strings]
            fields = errors.choices(unknown, flags) | {"kind": "unknown_option", "option": unknown}
        if isinstance(error := sys.exc_info()[1], argparse.ArgumentError):
            fields = {"kind": "invalid_value", "option": error.argument_name}
            for action in self._actions:
                if action.choices and error.argument_name in action.option_strings:
                    fields |= {"allowed": {"enum": [*action.choices]}}
        raise errors.SelectionError(Problem(message, **fields))


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


def error_object(error: BaseException, message: str, code: int, given: Sequence[str]) -> Any:
    """The answer of a command that ends with `error`; `given` are its arguments."""
    lines = getattr(error, "problems", error.args)
    is_own = isinstance(error, errors.AndironError)
    problems = [_problem(line, given) for line in lines] if is_own else []
    kind = type(error).__name__
    return {"error": {"kind": kind, "message": message, "problems": problems, "exit_code": code}}


def _problem(line: str, given: Sequence[str]) -> Plain:
    """The fields of a problem, of the argument that its line names."""
    option, value, reason = match.groups() if (match := HEAD.match(line)) else (None, None, line)
    near = NEAREST.search(line)
    problem = {
        "kind": "other", "option": option, "value": value, "allowed": None,
        "remedy": reason.partition("; ")[2] or reason, "message": line,
        "nearest": near and near[1],
    } | getattr(line, "fields", {})  # fmt: skip

    def closeness(entry: Entry) -> tuple[bool, int]:
        return entry[0] == problem["option"], len(entry[1]) * (entry[1] in line)

    entry = max(_entries(given), key=closeness, default=("", ""))
    is_named, letters = closeness(entry)
    if not is_named and letters < 2:
        return problem
    if not is_named or problem["value"] is None:
        problem |= {"option": entry[0] or None, "value": entry[1]}
    if problem["kind"] == "other":
        is_missing = MISSING.search(line) and not os.path.lexists(entry[1])
        problem["kind"] = "missing_path" if is_missing else "invalid_value"
    return problem


def _entries(given: Sequence[str]) -> Iterator[Entry]:
    """The option or flag of each argument, and its value."""
    flag = ""
    for text in given:
        name, equals, value = text.partition("=")
        if text.startswith("-"):
            flag = "" if text == FLAG else name
        if equals:
            yield name.lstrip("+~"), value
        else:
            yield flag, text

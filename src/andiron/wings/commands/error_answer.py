"""The answer under `--json` of a command that an error ends, from the text of the error."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from andiron import errors
from andiron.plain.plain_values import Plain
from andiron.shell.cli import answers

HEAD = re.compile(r"([\w@-][\w.@/~-]*)(?:=(.*?))?: (.*)", re.DOTALL)  # of a line about a problem
NEAREST = re.compile(r"did you mean '(.+?)'\?")
MISSING = re.compile("(?i)no such (file|folder)|not found|holds no|does not exist|no record format")
Entry = tuple[str, str]  # an option or flag, and its value


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
            flag = "" if text == answers.FLAG else name
        if equals:
            yield name.lstrip("+~"), value
        else:
            yield flag, text

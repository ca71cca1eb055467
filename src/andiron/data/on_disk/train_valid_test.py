"""The names of folders and files that say which part or group of the data is in them."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence

from andiron import errors

log = logging.getLogger("andiron")
PARTS = ("train", "valid", "test")
MEANINGS = {  # of a name without WORDS
    "train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid",
    "dev": "valid", "eval": "valid", "evaluation": "valid", "validate": "valid", "test": "test",
    "testing": "test",
}  # fmt: skip
OTHERS = ", ".join(name for name in MEANINGS if name not in PARTS)
WORDS = re.compile("[^a-z]|set|seg|data|images?")


def part_of(name: str) -> str | None:
    """The part that a name means, such as test for `Test-Images`; None for another name."""
    return MEANINGS.get(WORDS.sub("", name.lower()))


def warn_of_columns(source: str, columns: Mapping[str, Iterable[str]]) -> None:
    """Names a column whose texts are the parts of the rows, which are divided without it."""
    for column, texts in columns.items():
        listed: dict[str | None, list[str]] = {}
        for text in sorted({*texts}):
            listed.setdefault(part_of(text), []).append(text)
        held_out = [part for part in PARTS[1:] if part in listed]
        if not held_out or listed.keys() != {"train", *held_out}:
            continue
        sets = [f"{part}: [{', '.join(listed[part])}]" for part in held_out]
        only = ""
        if len(sets) == 1:
            sets, only = [f"test: [{', '.join(listed[held_out[0]])}]"], " data.valid=test"
        log.warning(
            "%s: column %r says which part a row is in, and the rows are divided without it; "
            "'data.split={by: %s, %s}'%s follows it",
            source, column, column, ", ".join(sets), only,
        )  # fmt: skip


def values_in(paths: Sequence[str], pattern: str, columns: Sequence[str] = ()) -> list[str]:
    """The match of a regular expression in each path: its first group, else the whole.

    The value is empty for a path without a match. `columns` are others to divide by, in a message.
    Raises: DataError for an invalid pattern, and one that no path has.
    """
    try:
        matches = [re.search(pattern, path) for path in paths]
    except re.error as error:
        raise errors.DataError(
            f"data.split: {pattern!r} is not a regular expression: {error}; correct it"
        ) from error
    if not any(matches):
        named = f"one of the columns {', '.join(columns)}, or " if columns else ""
        raise errors.DataError(
            f"data.split: {pattern!r} is in no path, such as {paths[0]}; give {named}a regular "
            "expression, such as '([^/]+)/[^/]+$' for the folder of a picture"
        )
    return ["" if match is None else match[match.lastindex or 0] for match in matches]

"""The ledger of `andiron try`, `ideas.jsonl`, with a line for each idea.

The number of an idea is the name of its sweep's folder.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import append_only, files
from andiron.disk.append_only import AppendOnlyFile

Idea = dict[str, Any]  # a line of the ledger
KINDS: dict[str, Any] = {
    "idea": int, "metric": str | None, "mean": float | int | None, "kept": bool, "values": dict,
    "code": list, "patches": list,
}  # fmt: skip


def read(path: Path) -> dict[int, Idea]:
    """The ideas in a ledger by number, without a last line that was cut off.

    Raises: DataError if it is damaged, or a number has two lines.
    """
    try:
        *lines, last = files.read_bytes(path).split(b"\n")
        lines += [last] if _is_whole(last) else []
        ideas = [_checked(files.parsed_json(line)) for line in lines]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        why = "is not a ledger of ideas; restore it, or give another folder with --ideas"
        raise errors.DataError(f"{path}: {why}") from error
    twice = [name for name, times in Counter(idea["idea"] for idea in ideas).items() if times > 1]
    if twice:
        why = "has two lines; remove one, or give another folder with --ideas"
        raise errors.DataError(f"{path}: idea {twice[0]} {why}")
    return {idea["idea"]: idea for idea in ideas}


def opened(path: Path) -> AppendOnlyFile:
    """The ledger, to append to, without the part of a last line that was cut off.

    Raises: OutputError if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        book = AppendOnlyFile(path)
        last = files.read_bytes(path).split(b"\n")[-1]
        if _is_whole(last):
            book.append(b"\n")
        elif last:
            append_only.cut(path, book.size - len(last))
    except (OSError, ValueError) as error:
        why = f"cannot be written ({files.reason(error)})"
        raise errors.OutputError(f"{path} {why}; give another folder with --ideas") from error
    return book


def new_folder(parent: Path, ideas: Iterable[int]) -> Path:
    """The folder of a new idea, numbered above all in the ledger and in the folder."""
    names = (path.name for path in parent.iterdir())
    first = max([0, *ideas, *(int(name) for name in names if name.isdecimal())]) + 1
    for number in count(first):  # another command may take one at the same time
        folder = parent / str(number)
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError


def _is_whole(last: bytes) -> bool:
    """Whether the last line, which has no end, was not cut off."""
    try:
        files.parsed_json(last)
    except ValueError:
        return False
    return True


def _checked(idea: Any) -> Idea:
    """A line of the ledger; raises TypeError or KeyError if the command cannot have written it."""
    numbers = {*map(type, idea["values"].values())} - {float, int}
    changes = [
        repository["root"]
        for repository in idea["code"]
        if repository["uncommitted"] and repository["revision"]
    ]
    if (
        any(not isinstance(idea[name], kind) for name, kind in KINDS.items())
        or numbers - ({type(None)} if idea["mean"] is None else set())
        or [*map(type, [*changes, *idea["patches"]])] != [str] * 2 * len(changes)
    ):
        raise TypeError(idea)
    return dict(idea)

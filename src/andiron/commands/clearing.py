"""Runs removed or archived one by one, after the user has agreed; each refusal is reported."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from andiron import errors
from andiron.comparison import removal, run_list
from andiron.comparison.recorded_run import Run
from andiron.comparison.text_table import cell
from andiron.run_folder import RunFolder

EXIT_DONE, EXIT_FAILED = 0, 1
MOST_NAMED = 5  # of the files that stay in a folder


def remove(runs: Sequence[Run], *, is_agreed: bool) -> int:
    """Removes what the runs wrote; the exit code."""
    return _each(runs, "remove", "removed", removal.remove, is_agreed=is_agreed)


def archive(runs: Sequence[Run], into: Path, *, moves: bool, is_agreed: bool) -> int:
    """Packs the runs into archives below `into`, or moves their folders; the exit code."""

    def packed(folder: RunFolder) -> list[str]:
        return removal.pack(folder, into / f"{_place(folder.path)}.tar.gz")

    def moved(folder: RunFolder) -> list[str]:
        removal.move(folder, into / _place(folder.path))
        return []

    return _each(runs, "archive", "archived", moved if moves else packed, is_agreed=is_agreed)


def reason(error: errors.AndironError | OSError) -> str:
    """What went wrong with a folder, for the terminal."""
    if not isinstance(error, OSError):
        return str(error)
    other = "; it is on another file system: leave out --move" * (error.errno == errno.EXDEV)
    return errors.printable(f"{error.filename}: {error.strerror}{other}")


def _each(
    runs: Sequence[Run],
    verb: str,
    done: str,
    act: Callable[[RunFolder], list[str]],
    *,
    is_agreed: bool,
) -> int:
    if not is_agreed and not _agreed(verb, runs):
        return EXIT_FAILED
    code = EXIT_DONE
    for run in runs:
        try:
            left = act(run.folder)
        except (errors.AndironError, OSError) as error:
            print(f"error: {reason(error)}", file=sys.stderr)
            code = EXIT_FAILED
            continue
        print(f"{done}: {run_list.named(run)}{_left(left)}")
    return code


def _left(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return errors.printable(f" (left there: {', '.join(names[:MOST_NAMED])}{more})")


def _agreed(verb: str, runs: Sequence[Run]) -> bool:
    """Whether the person at the terminal agrees.

    Raises: SelectionError where there is no terminal.
    """
    if not sys.stdin.isatty():
        raise errors.SelectionError(f"give --yes to {verb} runs: standard input is not a terminal")
    for run in runs:
        print(f"{cell(run.facts['status']):12} {run_list.named(run)}")
    print(f"{verb} {'this run' if len(runs) == 1 else f'these {len(runs)} runs'}? [y/N] ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed", file=sys.stderr)
    return False


def _place(path: Path) -> Path:
    """Where a run lies below the current folder; its name, for one that lies elsewhere."""
    whole = Path(os.path.abspath(path))  # without `..`
    return whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else Path(whole.name)

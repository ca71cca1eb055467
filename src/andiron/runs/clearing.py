"""Removes runs one by one after the user's confirmation; reports each failure."""

import sys
from collections.abc import Sequence

from andiron import errors
from andiron.comparison import removal, run_list
from andiron.comparison.recorded_run import Run
from andiron.comparison.text_table import cell
from andiron.disk import files
from andiron.plain import readable

EXIT_DONE, EXIT_FAILED = 0, 1


def remove(runs: Sequence[Run], *, is_agreed: bool) -> int:
    """Removes the files of the runs; returns the exit code."""
    if not is_agreed and not _confirm(runs):
        return EXIT_FAILED
    code = EXIT_DONE
    for run in runs:
        try:
            remaining = removal.remove(run.folder)
        except (errors.AndironError, OSError) as error:
            print(f"error: {reason(error)}", file=sys.stderr)
            code = EXIT_FAILED
            continue
        print(f"removed: {run_list.named(run)}{_remaining_text(remaining)}")
    return code


def reason(error: errors.AndironError | OSError) -> str:
    """The error's message for the terminal, with the path of an OSError."""
    if not isinstance(error, OSError):
        return str(error)
    prefix = f"{error.filename}: " if error.filename else ""
    return errors.printable(f"{prefix}{files.reason(error)}")


def _remaining_text(names: Sequence[str]) -> str:
    return errors.printable(f" (left there: {readable.joined(names)})") if names else ""


def _confirm(runs: Sequence[Run]) -> bool:
    """Whether the user confirms at the terminal.

    Raises: SelectionError without a terminal.
    """
    if not sys.stdin.isatty():
        raise errors.SelectionError("give --yes to remove runs: standard input is not a terminal")
    for run in runs:
        print(f"{cell(run.facts['status']):12} {run_list.named(run)}")
    print(f"remove {'this run' if len(runs) == 1 else f'these {len(runs)} runs'}? [y/N] ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed", file=sys.stderr)
    return False

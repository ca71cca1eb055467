"""Removes the files that runs wrote, once the user agrees; never of a running run or by a link."""

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from andiron import errors
from andiron.disk import files
from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers
from andiron.shell.run import run_files, run_record
from andiron.shell.run.log_file import alone_in, locked
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.runs.text_table import cell

EXIT_DONE, EXIT_FAILED = 0, 1


def remove(runs: Sequence[RunReader], *, is_agreed: bool) -> int:
    """Removes the files of the runs one by one; returns the exit code.

    Raises: RunFolderError with each failure, after the others were removed.
    """
    if not is_agreed and not _confirm(runs):
        return EXIT_FAILED
    left, failures = dict[str, list[str]](), list[str]()
    for run in runs:
        try:
            remaining = _remove_files(run.folder)
        except errors.AndironError as error:
            failures.append(str(error))
        except OSError as error:
            place = error.filename or run.path
            failures.append(readable.printable(f"{place}: {files.reason(error)}"))
        else:
            left[str(run.path)] = remaining
            note = f" (left there: {readable.joined(remaining)})" if remaining else ""
            print(f"removed: {cell(run.path)}{readable.printable(note)}")
    if failures:
        raise errors.RunFolderError(*failures)
    answers.give({"removed": left})
    return EXIT_DONE


def _confirm(runs: Sequence[RunReader]) -> bool:
    """Whether the user confirms at the terminal.

    Raises: SelectionError without a terminal.
    """
    if not sys.stdin.isatty() or answers.are_asked():
        raise errors.SelectionError("give --yes to remove runs: standard input is not a terminal")
    for run in runs:
        print(f"{cell(run.facts['status']):12} {cell(run.path)}")
    print(f"remove {'this run' if len(runs) == 1 else f'these {len(runs)} runs'}? [y/N] ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed", file=sys.stderr)
    return False


def _remove_files(folder: RunFolder) -> list[str]:
    """Removes the run's files, and the folder if empty; returns the names of remaining files.

    Raises: RunFolderError for a running run, for links among its files, or for a path
    through a link; DataError without a valid manifest. Nothing is removed then.
    """
    path, real = folder.path, Path(os.path.realpath(folder.path))
    run_record.manifest_of(folder)
    if os.path.abspath(path) != str(real):
        raise errors.RunFolderError(f"{path}: leads through a link; name {real} itself")
    if outer := run_record.run_around(real):
        why = f"is among the files of the run in {outer}; move it elsewhere first"
        raise errors.RunFolderError(f"{path}: {why}")
    with alone_in(path), ExitStack() as locks:
        if links := run_files.own_links(folder):
            names = readable.joined(links)
            raise errors.RunFolderError(f"{path}: {names}: a link; remove it yourself first")
        if folder.log.exists():
            if not stat.S_ISREG(folder.log.lstat().st_mode):
                raise errors.RunFolderError(f"{folder.log}: is not a file; remove it first")
            try:
                locks.enter_context(locked(folder.log))
            except BlockingIOError as error:
                raise errors.RunFolderError(f"{path}: is still training; end it first") from error
        run_files.settle(folder)
        run_files.remove(folder)
        if folder.manifest.exists():
            why = "could not be removed; make it writable and try again"
            raise errors.RunFolderError(f"{path}: {why}")
        left = (file for file in path.rglob("*") if file.is_symlink() or not file.is_dir())
        return sorted(file.relative_to(path).as_posix() for file in left)

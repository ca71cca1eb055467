"""Removes the files that a run wrote, never while it trains and never through a link."""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from andiron import errors
from andiron.plain import readable
from andiron.run import replaced_run, run_record
from andiron.run.log_file import alone_in, locked
from andiron.run_folder import RunFolder


def remove(folder: RunFolder) -> list[str]:
    """Removes the run's files, and the folder if empty; returns the names of remaining files.

    Raises: RunFolderError for a running run, for links or another run among its files, or for a
    path through a link; DataError without a valid manifest. Nothing is removed then.
    """
    with _locked_folder(folder):
        return _remove_files(folder)


@contextmanager
def _locked_folder(folder: RunFolder) -> Iterator[None]:
    """Keeps runs from starting in the folder; raises RunFolderError if one is training there."""
    run_record.manifest_of(folder)
    real = Path(os.path.realpath(folder.path))
    if os.path.abspath(folder.path) != str(real):
        raise errors.RunFolderError(f"{folder.path}: leads through a link; name {real} itself")
    if outer := run_record.run_around(real):
        reason = f"is among the files of the run in {outer}; move it elsewhere first"
        raise errors.RunFolderError(f"{folder.path}: {reason}")
    with alone_in(folder.path), ExitStack() as locks:
        links = replaced_run.own_links(folder)
        if links:
            names = readable.joined(links)
            raise errors.RunFolderError(f"{folder.path}: {names}: a link; remove it yourself first")
        if folder.log.exists():
            if not stat.S_ISREG(folder.log.lstat().st_mode):
                raise errors.RunFolderError(f"{folder.log}: is not a file; remove it first")
            try:
                locks.enter_context(locked(folder.log))
            except BlockingIOError as error:
                reason = f"{folder.path}: is still training; end it first"
                raise errors.RunFolderError(reason) from error
        replaced_run.settle(folder)
        replaced_run.refuse_inner_runs(folder)
        yield


def _remove_files(folder: RunFolder) -> list[str]:
    replaced_run.remove(folder)
    path = folder.path
    if folder.manifest.exists():
        raise errors.RunFolderError(f"{path}: could not be removed; make it writable and try again")
    files = (file for file in path.rglob("*") if file.is_symlink() or not file.is_dir())
    return sorted(file.relative_to(path).as_posix() for file in files)

"""A run removed: only the files that it wrote, never while it trains, never through a link."""

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
    """Removes what the run wrote, and the folder once empty; returns the names of what is left.

    Raises: RunFolderError for a running run, one with links or another run among its files, or a
    path through a link; DataError for no run, or a damaged manifest; nothing is removed then.
    """
    with _held(folder):
        return _removed(folder)


@contextmanager
def _held(folder: RunFolder) -> Iterator[None]:
    """Within it no run begins in the folder; one that trains there is refused."""
    run_record.manifest_of(folder)
    real = Path(os.path.realpath(folder.path))
    if os.path.abspath(folder.path) != str(real):
        raise errors.RunFolderError(f"{folder.path}: leads through a link; name {real} itself")
    if around := run_record.run_around(real):
        why = f"is among the files of the run in {around}; move it elsewhere first"
        raise errors.RunFolderError(f"{folder.path}: {why}")
    with alone_in(folder.path), ExitStack() as held:
        links = replaced_run.own_links(folder)
        if links:
            named = readable.joined(links)
            raise errors.RunFolderError(f"{folder.path}: {named}: a link; remove it yourself first")
        if folder.log.exists():
            if not stat.S_ISREG(folder.log.lstat().st_mode):
                raise errors.RunFolderError(f"{folder.log}: is not a file; remove it first")
            try:
                held.enter_context(locked(folder.log))
            except BlockingIOError as error:
                why = f"{folder.path}: is still training; end it first"
                raise errors.RunFolderError(why) from error
        replaced_run.settle(folder)
        replaced_run.refuse_inner_runs(folder)
        yield


def _removed(folder: RunFolder) -> list[str]:
    replaced_run.remove(folder)
    path = folder.path
    if folder.manifest.exists():
        raise errors.RunFolderError(f"{path}: could not be removed; make it writable and try again")
    found = (each for each in path.rglob("*") if each.is_symlink() or not each.is_dir())
    return sorted(each.relative_to(path).as_posix() for each in found)

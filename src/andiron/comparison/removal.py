"""Runs removed, or packed and moved away: only what they wrote, never a running one, never through
a link.
"""

import gzip
import os
import secrets
import stat
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from andiron import errors
from andiron.run import replaced_run, run_record
from andiron.run.log_file import alone_in, locked
from andiron.run_folder import RunFolder

MOST_NAMED = 5


def remove(folder: RunFolder) -> list[str]:
    """Removes what the run wrote, and the folder once empty; returns the names of what is left.

    Raises: RunFolderError for a running run, one with links or another run among its files, or a
    path through a link; DataError for no run, or a damaged manifest; nothing is removed then.
    """
    with _held(folder):
        return _removed(folder)


def pack(folder: RunFolder, archive: Path) -> list[str]:
    """Packs the folder into a new tar.gz, reads that back, then removes the run as `remove` does.

    Links are packed as links; pipes, devices and sockets are left out.
    Raises: RunFolderError as `remove`, and if the archive exists or is not whole.
    """
    with _held(folder):
        _refuse_existing(archive)
        paths = _regular(folder.path)
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_name(f".{archive.name}.{secrets.token_hex(4)}.partial")
        try:
            with tarfile.open(partial, "x:gz") as packed:
                for path in paths:
                    name = Path(folder.path.name, path.relative_to(folder.path))
                    packed.add(path, name, recursive=False)
            _check(partial, len(paths))
            partial.rename(archive)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
            raise errors.RunFolderError(f"{archive}: {error}; nothing was removed") from error
        finally:
            partial.unlink(missing_ok=True)
        return _removed(folder)


def move(folder: RunFolder, place: Path) -> None:
    """Renames the whole folder, other files in it included.

    Raises: RunFolderError as `remove`, or if `place` exists; OSError on another file system.
    """
    with _held(folder):
        _refuse_existing(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        folder.path.rename(place)


@contextmanager
def _held(folder: RunFolder) -> Iterator[None]:
    """Within it no run begins in the folder; one that trains there is refused."""
    run_record.manifest_of(folder)
    real = folder.path.resolve()
    if os.path.abspath(folder.path) != str(real):
        raise errors.RunFolderError(f"{folder.path}: leads through a link; name {real} itself")
    if around := run_record.run_around(real):
        why = f"is among the files of the run in {around}; move it elsewhere first"
        raise errors.RunFolderError(f"{folder.path}: {why}")
    with alone_in(folder.path), ExitStack() as held:
        links = replaced_run.own_links(folder)
        if links:
            named = ", ".join(links[:MOST_NAMED])
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


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise errors.RunFolderError(f"{path}: exists already; nothing was changed")


def _regular(folder: Path) -> list[Path]:
    kinds = stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK
    modes = ((path, path.lstat().st_mode) for path in sorted(folder.rglob("*")))
    return [folder, *(path for path, mode in modes if any(is_kind(mode) for is_kind in kinds))]


def _check(archive: Path, number: int) -> None:
    """Raises: RunFolderError unless so many entries can be read back, checksums included."""
    found = 0
    with archive.open("rb") as file:
        os.fsync(file.fileno())
    with tarfile.open(archive, "r|gz") as packed:
        for entry in packed:
            found += 1
            content = packed.extractfile(entry) if entry.isfile() else None
            while content is not None and content.read(2**20):
                pass
    if found != number:
        raise errors.RunFolderError(f"{archive}: holds {found} of {number} entries; try again")

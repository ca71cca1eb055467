"""Fetches the newest whole checkpoint of a mirror, and the run's record, into a new run folder.

What is there is a stranger's: only files that a run can have are fetched, each of the size that
the checkpoint's manifest lists. The folder is then subject to all checks of a run folder.
"""

import logging
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from andiron import errors
from andiron.checkpoint import contents
from andiron.checkpoint.checkpointer import KEPT_WITH_IT
from andiron.checkpoint.on_disk import checkpoint_files, manifest
from andiron.checkpoint.strategies import Saved
from andiron.disk import files
from andiron.run_folder import RunFolder, folder_at
from andiron.shell.config import quoting
from andiron_lab.mirror.record_copy import is_copied
from andiron_lab.mirror.remote_run import RECORD, RemoteRun, without_user

ATTEMPTS = 4  # to read something there; each pause is twice the last
T = TypeVar("T")
log = logging.getLogger("andiron")


def fetched(address: str, into: str | Path | None = None) -> Path:
    """A new folder with the run at the address, at its newest checkpoint that is whole.

    `into` is that folder, by default outputs/<date>/<time>.
    Raises: ConfigError as `RemoteRun`; RunFolderError if there is no checkpoint, the folder is not
    empty, or the address cannot be read.
    """
    remote, place = RemoteRun(address, "the address"), folder_at(into).path
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        resume = quoting.typed("resume", place)
        raise errors.RunFolderError(
            f"{place}: is not empty, and {remote} is fetched into a new folder; give another, or "
            f"{resume} if it was fetched before"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    for path, name in files.partials(place.parent).items():
        if name == place.name:  # of a killed process
            shutil.rmtree(path)
    partial = place.with_name(f".{place.name}.{secrets.token_hex(4)}.partial")
    try:
        step = _fetch_newest(remote, RunFolder(partial))
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    log.info("fetched %s of %s into %s", step, remote, place)
    return place


def _fetch_newest(remote: RemoteRun, folder: RunFolder) -> str:
    """Fetches the newest whole checkpoint and what comes with it; returns its name.

    Raises: RunFolderError if there is none.
    """
    steps = _repeated(remote, remote.steps)
    for name in reversed(steps):
        if not _repeated(remote, remote.manifest, name):
            continue
        try:
            _repeated(remote, _fetch_checkpoint, remote, name, folder)
        except errors.DataError as error:
            log.warning("%s: %s is damaged there and ignored: %s", remote, name, error)
            continue
        _fetch_kept(remote, name, steps, folder)
        _fetch_record(remote, name, folder)
        return name
    begun = f" ({', '.join(steps)}: not whole)" if steps else ""
    remedy = "give the address of a run's checkpoint.mirror"
    raise errors.RunFolderError(f"{remote}: no whole checkpoint there{begun}; {remedy}")


def _fetch_kept(remote: RemoteRun, newest: str, steps: list[str], folder: RunFolder) -> None:
    """Fetches the checkpoints, such as the best, that the run kept with its newest one."""
    state = checkpoint_files.load(folder.checkpoints / newest).state
    missing = []
    for name in [Saved.from_plain(entry).name for entry in state.get(KEPT_WITH_IT, [])]:
        if name == newest:
            continue
        try:
            if name not in steps:
                raise errors.DataError("not there")
            _repeated(remote, _fetch_checkpoint, remote, name, folder)
        except errors.DataError as error:
            missing.append(f"{name} ({error})")
    if missing:
        log.warning("%s: kept by the run, but not whole there: %s", remote, ", ".join(missing))


def _fetch_checkpoint(remote: RemoteRun, name: str, folder: RunFolder) -> None:
    """Fetches the listed files of a checkpoint; it gets its name once they are as listed.

    Raises: DataError.
    """
    partial = folder.checkpoints / f".{name}.{secrets.token_hex(4)}.partial"
    try:
        listed = f"{name}/{contents.MANIFEST}"
        _repeated(remote, remote.download, listed, partial / contents.MANIFEST)
        sizes = _repeated(remote, remote.sizes, name)
        for file, entry in manifest.read(partial).entries.items():
            if sizes.get(file) != entry["bytes"]:
                why = f"has {sizes.get(file, 0)} bytes there, not {entry['bytes']}"
                raise errors.DataError(f"{file}: {why}")
            _repeated(remote, remote.download, f"{name}/{file}", partial / file)
        manifest.verified(partial)
        partial.rename(folder.checkpoints / name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fetch_record(remote: RemoteRun, step: str, folder: RunFolder) -> None:
    """Fetches the record of the run; its manifest, without which it is no run, comes last."""
    names = [*filter(is_copied, _repeated(remote, remote.sizes, f"{step}/{RECORD}"))]
    for name in sorted(names, key=folder.manifest.name.__eq__):
        _repeated(remote, remote.download, f"{step}/{RECORD}/{name}", folder.path / name)


def _repeated(remote: RemoteRun, read: Callable[..., T], *args: object) -> T:
    """The result of `read(*args)`, which is called again after a failure.

    Raises: its DataError, or one for a file that is not there; RunFolderError for other failures.
    """
    for attempt in range(ATTEMPTS):
        try:
            return read(*args)
        except errors.RunFolderError:  # of a reading within this one
            raise
        except FileNotFoundError as error:
            raise errors.DataError(f"{args[0]} is missing there") from error
        except errors.DataError as error:
            failure: Exception = error
        except Exception as error:  # a library may raise anything
            failure = error
        if attempt + 1 < ATTEMPTS:
            time.sleep(2**attempt)
    if isinstance(failure, errors.DataError):
        raise failure
    reason = without_user(errors.reason(failure))
    raise errors.RunFolderError(f"{remote}: cannot be read ({reason})") from failure

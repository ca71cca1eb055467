"""A run's folder in the hands of one process: claimed for a new run, or taken over to resume one.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from andiron import errors, files
from andiron.run import status
from andiron.run.log_file import LogFile, is_held, unwritable
from andiron.run_folder import RunFolder

log = logging.getLogger("andiron")


@contextmanager
def claimed(folder: RunFolder, *, overwrite: bool = False) -> Iterator[None]:
    """The folder for a new run alone, its status and log kept; the empty folder may exist.

    After a ConfigError the folder is as it was found.
    Raises: RunFolderError if the folder cannot be written, or if it holds a run and `overwrite`
    does not allow removing that.
    """
    started = status.now()
    _claim(folder, started, overwrite=overwrite)
    try:
        with _logged(folder), status.reported(folder, started):
            yield
    except errors.ConfigError:  # nothing was trained, so there is no run to keep a record of
        _remove_run(folder)
        if not any(folder.path.iterdir()):
            folder.path.rmdir()
        raise


@contextmanager
def resumed(folder: RunFolder) -> Iterator[Callable[[], None]]:
    """The folder of a run that is resumed in it, its status and log kept as `claimed` keeps them.

    Call the function that is yielded once the run is built: after an earlier error the status is
    restored.
    Raises: RunFolderError if the folder cannot be written, or if another process trains the run.
    """
    begun: list[bool] = []
    started = status.now()
    before = status.contents([folder.status])
    with _logged(folder), status.restored_on_error(before, unless=lambda _: bool(begun)):
        for partial, name in files.partials(folder.path).items():  # left by a killed process
            if folder.owns(name):
                files.remove_partial(partial, [])
        status.write(folder, status.running(started))
        with status.reported(folder, started):
            yield lambda: begun.append(True)


def _claim(folder: RunFolder, started: str, *, overwrite: bool) -> None:
    path = folder.path
    try:
        path.mkdir(parents=True, exist_ok=True)
        if overwrite:
            _refuse_if_running(folder)
            _remove_run(folder)
        with folder.status.open("x", encoding="utf-8") as file:  # "x": one of two processes gets it
            json.dump(status.running(started), file, indent=2)
    except FileExistsError as error:
        raise errors.RunFolderError(
            f"{path} already holds a run; resume it with resume={path}, choose another "
            "hydra.run.dir, or give overwrite=true to remove what that run wrote"
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error


def _refuse_if_running(folder: RunFolder) -> None:
    pid = status.read(folder).get("pid")
    # process numbers are reused, so only the lock shows that the process still runs
    if pid != os.getpid() and is_held(folder.log):
        raise errors.RunFolderError(
            f"{folder.path} holds a run that process {pid} still trains; "
            "end it first, or choose another hydra.run.dir"
        )


def _remove_run(folder: RunFolder) -> None:
    """Removes what a run writes, by name; other files stay."""
    for path in list(folder.path.iterdir()):
        if not folder.owns(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _logged(folder: RunFolder) -> Iterator[None]:
    """Sends everything logged to `andiron` to the log file too, which no other process has open."""
    handler = LogFile(folder.log)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()

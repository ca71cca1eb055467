"""A run's folder in the hands of one process: claimed for a new run, or taken over to resume one.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from andiron import errors, files
from andiron.run import replaced_run, run_record, status
from andiron.run.log_file import LogFile, alone_in, is_held, unwritable
from andiron.run.replaced_run import ReplacedRun
from andiron.run_folder import RunFolder

log = logging.getLogger("andiron")


@contextmanager
def claimed(folder: RunFolder, *, overwrite: bool = False) -> Iterator[Callable[[], None]]:
    """The folder for a new run alone, its status and log kept; the empty folder may exist.

    Call the function that is yielded once the new run is built: only then is a run that it
    replaces removed. After an earlier error that run is put back, and after a ConfigError the
    folder is as it was found.
    Raises: RunFolderError if the folder cannot be written, if it holds files that no run wrote, or
    a run that `overwrite` does not allow replacing.
    """
    started = status.now()
    begun: list[bool] = []
    with ExitStack() as held:
        with alone_in(folder.path):
            replaced = _claim(folder, started, overwrite=overwrite)
            held.enter_context(_undone_on_error(folder, replaced, begun))
            held.enter_context(_logged(folder))
        with files.guarded(folder.path), status.reported(folder, started):
            run_record.begin(folder)

            def begins() -> None:
                begun.append(True)
                if replaced is not None:
                    replaced.remove()

            yield begins


@contextmanager
def _undone_on_error(
    folder: RunFolder, replaced: ReplacedRun | None, begun: list[bool]
) -> Iterator[None]:
    """Empties the folder again if nothing was trained, and puts back the run that was in it."""
    try:
        yield
    except BaseException as error:
        # nothing was trained: there is no run to keep a record of
        is_unbegun = isinstance(error, errors.ConfigError | errors.Interrupted)
        if not begun and (replaced is not None or is_unbegun):
            replaced_run.remove(folder)
            if replaced is not None:
                replaced.restore()
        raise


@contextmanager
def resumed(folder: RunFolder) -> Iterator[Callable[[], None]]:
    """The folder of a run that is resumed in it, its status and log kept as `claimed` keeps them.

    Call the function that is yielded once the run is built: after an earlier error the status is
    restored.
    Raises: RunFolderError if the folder cannot be written, if a link leads out of it, or if another
    process trains the run.
    """
    begun: list[bool] = []
    started = status.now()
    _refuse_links(folder)
    before = status.contents([folder.status])
    with (
        files.guarded(folder.path),
        _logged(folder),
        status.restored_on_error(before, unless=lambda _: bool(begun)),
    ):
        for partial, name in files.partials(folder.path).items():  # left by a killed process
            if folder.owns(name):
                files.remove_partial(partial, [])
        status.write(folder, status.running(started))
        with status.reported(folder, started):

            def begins() -> None:
                begun.append(True)
                replaced_run.remove_asides(folder)

            yield begins


def _claim(folder: RunFolder, started: str, *, overwrite: bool) -> ReplacedRun | None:
    """Makes the folder this run's; the run that was in it, moved aside."""
    path, replaced = folder.path, None
    try:
        _refuse_links(folder)
        _refuse_foreign(folder)
        if folder.holds_run():
            if not overwrite:
                raise FileExistsError
            _refuse_if_running(folder)
            replaced = ReplacedRun(folder)
        with folder.status.open("x", encoding="utf-8") as file:  # "x": one of two processes gets it
            json.dump(status.running(started), file, indent=2)
    except FileExistsError as error:
        raise errors.RunFolderError(
            f"{path} already holds a run; resume it with resume={path}, choose another "
            "hydra.run.dir, or give overwrite=true to remove what that run wrote"
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error
    return replaced


def _refuse_links(folder: RunFolder) -> None:
    """Nothing is written through a link: it could lead to another run, or out of the folder."""
    links = replaced_run.own_links(folder)
    if links:
        raise errors.RunFolderError(
            f"{folder.path}: {', '.join(links)}: a link, through which nothing is written; put "
            "the files themselves there, or choose another hydra.run.dir"
        )


def _refuse_foreign(folder: RunFolder) -> None:
    """A folder without a run of Andiron's must be empty: its files are somebody else's."""
    names = sorted(path.name for path in folder.path.iterdir())
    if names and not folder.holds_run():
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise errors.RunFolderError(
            f"{folder.path}: holds files that no run wrote ({', '.join(names[:5])}{more}), and "
            "nothing there was changed; choose another hydra.run.dir"
        )


def _refuse_if_running(folder: RunFolder) -> None:
    pid = status.read(folder).get("pid")
    # process numbers are reused, so only the lock shows that the process still runs
    if pid != os.getpid() and is_held(folder.log):
        raise errors.RunFolderError(
            f"{folder.path} holds a run that process {pid} still trains; "
            "end it first, or choose another hydra.run.dir"
        )


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

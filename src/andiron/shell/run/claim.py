"""Keeps a run's folder to one process: claims it for a new run, or to resume one."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from andiron import errors
from andiron.disk import append_only, files
from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.config import quoting
from andiron.shell.run import run_files, run_record, status
from andiron.shell.run.log_file import LogFile, alone_in, is_held, unwritable

log = logging.getLogger("andiron")


@contextmanager
def claimed(folder: RunFolder, *, overwrite: bool = False) -> Iterator[status.Report]:
    """Claims the folder for a new run and keeps its status and log; an empty folder may exist.

    Writers of the new run may have made files there before.
    Call the yielded report after the first update: it removes the run that is replaced. After an
    earlier error that run is restored, or nothing is left of the new one.
    Raises: RunFolderError if the folder cannot be written, or holds files that no run wrote or a
    run that `overwrite` does not allow replacing.
    """

    def begin() -> None:
        report.write(folder)
        run_files.discard(folder)

    report = status.Report(begin, is_untrained=True)
    _refuse_inside(folder)
    with ExitStack() as stack:
        with alone_in(folder.path):
            _claim(folder, overwrite=overwrite)
            stack.enter_context(_undo_on_error(folder, report))
            try:
                stack.enter_context(run_files.guarded(folder))
            except FileExistsError as error:
                raise unwritable(Path(error.filename), error) from error
            report.write(folder)
            stack.enter_context(_logging_to_file(folder))
        with status.reported(folder, report):
            yield report
            report()  # a run of no updates


@contextmanager
def _undo_on_error(folder: RunFolder, report: status.Report) -> Iterator[None]:
    """After an error before the first update, restores the run that was there, or leaves nothing.

    The logs of other processes that failed, and a saved non-finite update, stay until the next
    command.
    """
    run = run_record.identity(folder)
    try:
        yield
    except BaseException as error:
        leaves_files = isinstance(error, errors.PeerError | errors.NonFiniteError)
        if report.is_untrained and (run_files.is_aside(folder) or not leaves_files):
            # the next command that claims the folder settles the rest
            with suppress(OSError, errors.RunFolderError), alone_in(folder.path):
                if run_record.holds_run(folder, run):  # not another folder in its place
                    run_files.undo(folder)
        raise


def settle(folder: RunFolder) -> None:
    """Restores a run that a killed process was replacing, or removes it if the new run had begun.

    For commands that read the run before they claim the folder.
    Raises: RunFolderError if a process still trains there.
    """
    if run_files.is_aside(folder):
        with alone_in(folder.path):
            _settle(folder)


@contextmanager
def resumed(folder: RunFolder) -> Iterator[status.Report]:
    """Claims the folder of a run to resume it; keeps its status and log as `claimed` does.

    Without a call of the yielded report, no update was made: the status is restored.
    Raises: RunFolderError if the folder cannot be written, a link leads out of it, or another
    process trains the run.
    """
    report = status.Report()
    _refuse_links(folder)
    _refuse_foreign(folder)
    with run_files.guarded(folder), _restored_status(folder, report), _logging_to_file(folder):
        for partial, name in files.partials(folder.path).items():  # left by a killed process
            if folder.owns(name):
                files.remove_partial(partial, [])
        report.write(folder)
        with status.reported(folder, report):
            yield report


@contextmanager
def _restored_status(folder: RunFolder, report: status.Report) -> Iterator[None]:
    """Restores the status after a session without an update."""
    before = None
    with suppress(OSError, ValueError):  # missing, or too large
        before = files.read_bytes(folder.status)
    try:
        yield
    finally:
        if before is not None and not report.has_begun:
            with suppress(OSError):
                files.write(folder.status, before)


def refuse_if_running(folder: RunFolder) -> None:
    """Raises: RunFolderError if another process trains the run in the folder."""
    pid = status.read(folder).get("pid")
    # process numbers are reused, so only the lock shows that the process still runs
    if pid != os.getpid() and is_held(folder.log):
        raise errors.RunFolderError(
            f"{folder.path} holds a run that process {pid} still trains; "
            "end it first, or choose another hydra.run.dir"
        )


def _claim(folder: RunFolder, *, overwrite: bool) -> None:
    """Writes the new run's manifest, after an earlier run was moved aside."""
    path = folder.path
    try:
        _settle(folder)
        _refuse_links(folder)
        if not run_record.holds_run(folder):
            _refuse_foreign(folder)
            run_record.begin(folder)
            return
        refuse_if_running(folder)
        is_untrained = status.is_untrained(folder)
        if not (overwrite or is_untrained):
            raise FileExistsError
        _refuse_foreign(folder)
        if not is_untrained:
            run_files.replace(folder)
            return
        run_files.remove(folder, keeps_manifest=True)  # in place: it may be a mount point
        run_record.begin(folder, files.write)
    except FileExistsError as error:  # also of a run that another process has begun meanwhile
        resumed = quoting.typed("resume", path)
        raise errors.RunFolderError(
            f"{path} already holds a run; resume it with {resumed}, choose another hydra.run.dir, "
            "or give overwrite=true to remove what that run wrote"
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error


def _refuse_inside(folder: RunFolder) -> None:
    if around := run_record.run_around(folder.path):
        raise errors.RunFolderError(
            f"{folder.path}: is among the files of the run in {around}; choose another "
            "hydra.run.dir"
        )


def _settle(folder: RunFolder) -> None:
    if run_files.is_aside(folder):
        refuse_if_running(folder)
        run_files.settle(folder)


def _refuse_links(folder: RunFolder) -> None:
    """Refuses links: they could lead to another run, or out of the folder."""
    links = run_files.own_links(folder)
    if links:
        raise errors.RunFolderError(
            f"{folder.path}: {', '.join(links)}: a link, through which nothing is written; put "
            "the files themselves there, or choose another hydra.run.dir"
        )


def _refuse_foreign(folder: RunFolder) -> None:
    """Refuses files that are not the run's: not in its manifest, or in a folder without a run.

    Ignored are files that writers of this process have made, and the half-written manifest of a
    process that was killed early.
    """
    if run_record.holds_run(folder):
        names, remedy = run_record.unlisted(folder), "move them elsewhere"
    else:
        final_names, manifest = files.partials(folder.path), folder.manifest.name
        made = {name.partition("/")[0] for name in append_only.made_in(folder.path)}
        entries = [path for path in sorted(folder.path.iterdir()) if path.name not in made]
        names = [path.name for path in entries if final_names.get(path) != manifest]
        remedy = f"if a run is there, restore its {manifest}, which is missing or damaged"
    if names:
        raise errors.RunFolderError(
            f"{folder.path}: holds files that no run wrote ({readable.joined(names)}), and "
            f"nothing there was changed; {remedy}, or choose another hydra.run.dir"
        )


@contextmanager
def _logging_to_file(folder: RunFolder) -> Iterator[None]:
    """Also writes the messages of `andiron` to the run's log, which no other process has open."""
    handler = LogFile(folder.log)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.setLevel(level)  # the logger of a library is its program's
        log.removeHandler(handler)
        handler.close()

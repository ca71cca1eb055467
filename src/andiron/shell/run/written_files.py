"""The files of a run beside its recorded ones, such as curves and logs: its manifest lists them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from andiron import errors
from andiron.disk import append_only, files, guarded_folders
from andiron.run_folder import CSV_HEADER, PROJECTOR, RunFolder
from andiron.shell.run import run_record


@contextmanager
def guarded(folder: RunFolder) -> Iterator[None]:
    """A context in which the run's new files are listed, and no file of others is written.

    Raises: FileExistsError if this process has opened a file that the run did not write.
    """
    save = partial(run_record.list_written, folder)
    with guarded_folders.guarded(folder.path, names(folder), save):
        append_only.list_open_files()
        yield


@contextmanager
def forgotten(folder: RunFolder, unless: Callable[[], object]) -> Iterator[None]:
    """Removes the files that were listed in the body, unless `unless()` is true then.

    The logs of other processes that failed, and a saved non-finite update, stay.
    """
    before, stays = names(folder), False
    try:
        yield
    except (errors.PeerError, errors.NonFiniteError):
        stays = True
        raise
    finally:
        new = names(folder) - before
        if new and not stays and not unless():
            with suppress(OSError):  # a full disk, which the raised error reports
                for name in new:
                    (folder.path / name).unlink(missing_ok=True)
                run_record.list_written(folder, before)


def names(folder: RunFolder) -> set[str]:
    """The files' names below the folder; of an earlier version's run those that it surely wrote."""
    listed = run_record.manifest_of(folder).written
    if listed is None:
        listed = [path.relative_to(folder.path).as_posix() for path in _unlisted(folder)]
    return {folder.status.name, folder.log.name, *listed}


def _unlisted(folder: RunFolder) -> Iterator[Path]:
    yield folder.metrics
    yield from (folder.tensorboard / "valid" / name for name in PROJECTOR)
    yield from (path for path in folder.ranks.glob("*.log") if path.stem.isdecimal())
    with suppress(OSError, ValueError), files.opened(folder.metrics_csv) as file:
        if file.read(len(CSV_HEADER)) == CSV_HEADER:
            yield folder.metrics_csv
    for state in folder.checkpoints.glob("*/state.json"):  # names the event files
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            for position in files.read_json(state)["metric_log"]["writers"].values():
                listed = [folder.tensorboard / name for name in position.get("files", ())]
                yield from (path for path in listed if ".." not in path.parts)

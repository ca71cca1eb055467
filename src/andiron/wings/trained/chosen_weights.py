"""Finds the weights file in a run folder for a name: last, best, or an average."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from andiron import checkpoint, errors
from andiron.checkpoint import LocalStore, Store, contents
from andiron.checkpoint.on_disk import manifest
from andiron.data.splitting.described import Described
from andiron.run_folder import RunFolder
from andiron.shell.assembly import resume_point, configured_store
from andiron.shell.config.schema import Train
from andiron.shell.run import run_record

LAST, BEST = "last", "best"
log = logging.getLogger("andiron")


def file_of(folder: RunFolder, config: Train, name: str, data: Described) -> Path:
    """The file with the weights `name`, verified to be as the run wrote it.

    `last` is the end of the run, or its newest whole checkpoint; `best` is its best checkpoint by
    the metric of `checkpoint`, with the averaged weights if those were measured; other names are
    averages.
    Raises: RunFolderError, listing the available names, if there is no such file; DataError for a
    file that is damaged, changed, or outside the run's folder.
    """
    store = configured_store.store(config.checkpoint, folder.checkpoints)
    file_name = contents.MODEL if name == LAST else contents.AVERAGE.format(name)
    file = None if name == BEST else _final_file(folder, name, file_name)
    if file is None:
        newest = _files_of_newest(folder, store)
        is_best = name == BEST
        file = _best_file(config, store, data, newest) if is_best else newest.get(file_name)
        if file is None:
            files = {path.name for path in folder.path.glob("model*.safetensors")} | newest.keys()
            has_best = not is_best and _best_file(config, store, data, newest) is not None
            names = [LAST] * (contents.MODEL in files) + [BEST] * has_best
            names += sorted(filter(None, map(contents.average_in, files)))
            raise errors.RunFolderError(
                f"weights={name}: {folder.path} has no such weights; available: "
                f"{', '.join(names) or 'none yet'}"
            )
    is_local = isinstance(store, LocalStore) and store.folder == folder.checkpoints
    is_fetched = file.parent != folder.path and not is_local  # by a user's own store
    if not is_fetched and not file.resolve().is_relative_to(folder.path.resolve()):
        raise errors.DataError(
            f"{file}: a link leads out of the run's folder; copy the file into it"
        )
    return file


def _final_file(folder: RunFolder, name: str, file_name: str) -> Path | None:
    """The file of a finished run; None if it has no such file."""
    path = folder.model if name == LAST else folder.path / file_name
    if not contents.is_own(path.name) or not os.path.lexists(path):
        return None
    run_record.check(folder, path)
    return path


def _best_file(
    config: Train, store: Store, data: Described, newest: Mapping[str, Path]
) -> Path | None:
    """The file of the best existing checkpoint with the weights that its value was measured with.

    None if the run selected none.
    """
    if config.checkpoint is None or not newest:
        return None
    place, names = newest[contents.STATE].parent, checkpoint.names(store)
    best, average = resume_point.best(config, data.offered, place, names)
    if best is None:
        return None
    path, file = store.fetch(best.name), contents.AVERAGE.format(average)
    entries = manifest.verified(path).entries
    return path / (file if average and file in entries else contents.MODEL)


def _files_of_newest(folder: RunFolder, store: Store) -> dict[str, Path]:
    """The files of the newest whole checkpoint of this run; unlike a resume, renames nothing."""
    run = run_record.identity(folder)
    for name in reversed(checkpoint.names(store)):
        path = store.fetch(name)
        try:
            record = manifest.verified(path)
        except errors.DataError as error:
            log.warning("checkpoint %s is damaged and ignored: %s", path, error)
            continue
        if record.run in (None, run):
            return {file: path / file for file in record.entries}
    return {}

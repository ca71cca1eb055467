"""Finds the weights file in a run folder for a name: last, best, or an average."""

import logging
import os
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
    if name == BEST:
        file = _best_file(folder, config, store, data)
    else:
        file_name = contents.MODEL if name == LAST else contents.AVERAGE.format(name)
        file = _final_file(folder, name, file_name) or _checkpoint_file(folder, store, file_name)
    if file is None:
        files = {path.name for path in folder.path.glob("model*.safetensors")}
        files |= {name for _, record in _newest(folder, store) for name in record.entries}
        names = [LAST] * (contents.MODEL in files)
        names += [BEST] if _best_file(folder, config, store, data) else []
        names += sorted(filter(None, map(contents.average_in, files)))
        has_best = name != BEST or (config.checkpoint or {}).get("metric")
        why = "" if has_best else " (checkpoint.metric is null: it kept no best checkpoint)"
        raise errors.RunFolderError(
            f"weights={name}: {folder.path} has no such weights{why}; available: "
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


def _checkpoint_file(folder: RunFolder, store: Store, file_name: str) -> Path | None:
    """The file in the newest whole checkpoint; None without such a checkpoint or file."""
    newest = _newest(folder, store)
    return next((path / file_name for path, saved in newest if file_name in saved.entries), None)


def _best_file(folder: RunFolder, config: Train, store: Store, data: Described) -> Path | None:
    """The file of the best existing checkpoint with the weights that its value was measured with.

    None if the run selected none.
    """
    for newest, _ in _newest(folder, store) if config.checkpoint is not None else ():
        names = checkpoint.names(store)
        best, average = resume_point.best(config, data.offered, newest, names)
        if best is not None:
            path, file = store.fetch(best.name), contents.AVERAGE.format(average)
            entries = manifest.verified(path).entries
            return path / (file if average and file in entries else contents.MODEL)
    return None


def _newest(folder: RunFolder, store: Store) -> list[tuple[Path, manifest.Manifest]]:
    """The newest whole checkpoint of this run, if any; unlike a resume, renames nothing."""
    run = run_record.identity(folder)
    for name in reversed(checkpoint.names(store)):
        path = store.fetch(name)
        try:
            record = manifest.verified(path)
        except errors.DataError as error:
            log.warning("checkpoint %s is damaged and ignored: %s", path, error)
            continue
        if record.run in (None, run):
            return [(path, record)]
    return []

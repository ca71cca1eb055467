"""Finds the weights file in a run folder for a name: last, best, or an average."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from andiron import checkpoint, errors
from andiron.checkpoint import LocalStore, Saved, Store, contents, strategies
from andiron.checkpoint.on_disk import manifest
from andiron.checkpoint.checkpointer import KEPT_WITH_IT
from andiron.data.splitting.described import Described
from andiron.learner.extras import state_format
from andiron.run_folder import RunFolder
from andiron.shell.assembly import configured_learner, configured_store
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
        file = _final_file(folder, name) or _checkpoint_file(folder, store, name)
    if file is None:
        available = ", ".join(_available(folder, config, store, data)) or "none yet"
        has_best = name != BEST or (config.checkpoint or {}).get("metric")
        why = "" if has_best else " (checkpoint.metric is null: it kept no best checkpoint)"
        raise errors.RunFolderError(
            f"weights={name}: {folder.path} has no such weights{why}; available: {available}"
        )
    is_local = isinstance(store, LocalStore) and store.folder == folder.checkpoints
    is_fetched = file.parent != folder.path and not is_local  # by a user's own store
    if not is_fetched and not file.resolve().is_relative_to(folder.path.resolve()):
        raise errors.DataError(
            f"{file}: a link leads out of the run's folder; copy the file into it"
        )
    return file


def _final_file(folder: RunFolder, name: str) -> Path | None:
    """The file of a finished run; None if it has no such file."""
    path = folder.model if name == LAST else folder.path / contents.AVERAGE.format(name)
    if not contents.is_own(path.name) or not os.path.lexists(path):
        return None
    run_record.check(folder, path)
    return path


def _checkpoint_file(folder: RunFolder, store: Store, name: str) -> Path | None:
    """The file in the newest whole checkpoint; None without such a checkpoint or file."""
    file = contents.MODEL if name == LAST else contents.AVERAGE.format(name)
    for path, record in _whole_checkpoints(folder, store):
        return path / file if file in record.entries else None
    return None


def _best_file(folder: RunFolder, config: Train, store: Store, data: Described) -> Path | None:
    """The file of the best existing checkpoint with the weights that its value was measured with.

    None if the run selected none.
    """
    if config.checkpoint is None:
        return None
    metrics = configured_learner.measured(config.metrics, data.offered)
    strategy = configured_learner.checkpointing(config.checkpoint, [*metrics.values()]).strategy
    best = strategies.best(strategy, _existing_checkpoints(folder, store))
    if best is None:
        return None
    path = store.fetch(best.name)
    record, average = manifest.verified(path), strategies.judged_average(strategy)
    file = contents.AVERAGE.format(average) if average else contents.MODEL
    return path / (file if file in record.entries else contents.MODEL)


def _existing_checkpoints(folder: RunFolder, store: Store) -> list[Saved]:
    """The existing checkpoints, with their values as the newest whole one records them."""
    path, _ = next(_whole_checkpoints(folder, store), (None, None))
    if path is None:
        return []
    file = path / contents.STATE
    state = state_format.checked(manifest.read_json(file), str(file))
    names = set(checkpoint.names(store))
    recorded = map(Saved.from_plain, state.get(KEPT_WITH_IT, []))
    return [saved for saved in recorded if saved.name in names]


def _whole_checkpoints(folder: RunFolder, store: Store) -> Iterator[tuple[Path, manifest.Manifest]]:
    """The whole checkpoints of this run, newest first; unlike a resume, renames nothing."""
    run = run_record.identity(folder)
    for name in reversed(checkpoint.names(store)):
        path = store.fetch(name)
        try:
            record = manifest.verified(path)
        except errors.DataError as error:
            log.warning("checkpoint %s is damaged and ignored: %s", path, error)
            continue
        if record.run in (None, run):
            yield path, record


def _available(folder: RunFolder, config: Train, store: Store, data: Described) -> Iterator[str]:
    """The names for which `file_of` finds a file."""
    newest = next(_whole_checkpoints(folder, store), None)
    files = {path.name for path in folder.path.glob("model*.safetensors")}
    files |= set() if newest is None else set(newest[1].entries)
    if contents.MODEL in files:
        yield LAST
    if _best_file(folder, config, store, data):
        yield BEST
    yield from sorted(filter(None, map(contents.average_in, files)))

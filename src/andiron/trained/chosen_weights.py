"""Which file of a run folder has the weights that a name asks for: last, best, or an average."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from andiron import checkpoint, errors
from andiron.assembly import configured_learner, configured_store
from andiron.checkpoint import LocalStore, Saved, Store, contents, manifest, strategies
from andiron.checkpoint.checkpointer import KEPT_WITH_IT
from andiron.config.schema import Train
from andiron.data.described import Described
from andiron.learner import state_format
from andiron.run import run_record
from andiron.run_folder import RunFolder

LAST, BEST = "last", "best"
log = logging.getLogger("andiron")


def file_of(folder: RunFolder, config: Train, name: str, data: Described) -> Path:
    """The file with these weights, once it is whole and as the run wrote it.

    `last` are those at the end of the run, or of its newest whole checkpoint; `best` those of its
    best checkpoint by the metric of `checkpoint`; other names are averages.
    Raises: RunFolderError, with the names to choose from, if there are none; DataError for a file
    that is damaged, was changed, or lies elsewhere.
    """
    store = configured_store.store(config, folder.checkpoints)
    if name == BEST:
        found = _best(folder, config, store, data)
    else:
        found = _exported(folder, name) or _in_checkpoint(folder, store, name)
    if found is None:
        there = ", ".join(_names(folder, config, store, data)) or "none yet"
        raise errors.RunFolderError(
            f"weights={name}: {folder.path} has no such weights{_why(name, config)}; "
            f"available: {there}"
        )
    is_local = isinstance(store, LocalStore) and store.folder == folder.checkpoints
    is_fetched = found.parent != folder.path and not is_local  # by a store of the user's own
    if not is_fetched and not found.resolve().is_relative_to(folder.path.resolve()):
        why = "a link leads out of the run's folder"
        raise errors.DataError(f"{found}: {why}; copy the file into it")
    return found


def _exported(folder: RunFolder, name: str) -> Path | None:
    """The file of a finished run; None if it has no such file."""
    path = folder.model if name == LAST else folder.path / contents.AVERAGE.format(name)
    if not contents.is_own(path.name) or not os.path.lexists(path):
        return None
    run_record.check(folder, path)
    return path


def _in_checkpoint(folder: RunFolder, store: Store, name: str) -> Path | None:
    """The file in the newest whole checkpoint; None without such a checkpoint or file."""
    file = contents.MODEL if name == LAST else contents.AVERAGE.format(name)
    for place, listed in _whole(folder, store):
        return place / file if file in listed.entries else None
    return None


def _best(folder: RunFolder, config: Train, store: Store, data: Described) -> Path | None:
    """The best of the checkpoints that are there; None if the run looked for none."""
    if config.checkpoint is None:
        return None
    metrics = configured_learner.measured(config, data.offered)
    strategy = configured_learner.checkpointing(config.checkpoint, metrics).strategy
    best = strategies.best(strategy, _listed(folder, store))
    if best is None:
        return None
    place = store.fetch(best.name)
    manifest.verified(place)
    return place / contents.MODEL


def _listed(folder: RunFolder, store: Store) -> list[Saved]:
    """The checkpoints that are there, with the values that the newest whole one lists."""
    place, _ = next(_whole(folder, store), (None, None))
    if place is None:
        return []
    file = place / contents.STATE
    state = state_format.checked(manifest.read_json(file), str(file))
    there = set(checkpoint.names(store))
    listed = map(Saved.from_plain, state.get(KEPT_WITH_IT, []))
    return [each for each in listed if each.name in there]


def _whole(folder: RunFolder, store: Store) -> Iterator[tuple[Path, manifest.Manifest]]:
    """The whole checkpoints of this run, newest first; nothing is renamed, unlike at a resume."""
    run = run_record.identity(folder)
    for name in reversed(checkpoint.names(store)):
        place = store.fetch(name)
        try:
            listed = manifest.verified(place)
        except errors.DataError as error:
            log.warning("checkpoint %s is damaged and ignored: %s", place, error)
            continue
        if listed.run in (None, run):
            yield place, listed


def _names(folder: RunFolder, config: Train, store: Store, data: Described) -> Iterator[str]:
    """The names that `file_of` finds a file for."""
    newest = next(_whole(folder, store), None)
    files = {path.name for path in folder.path.glob("model*.safetensors")}
    files |= set() if newest is None else set(newest[1].entries)
    if contents.MODEL in files:
        yield LAST
    if _best(folder, config, store, data):
        yield BEST
    yield from sorted(filter(None, map(contents.average_in, files)))


def _why(name: str, config: Train) -> str:
    if name != BEST or (config.checkpoint or {}).get("metric"):
        return ""
    return " (checkpoint.metric is null: it kept no best checkpoint)"

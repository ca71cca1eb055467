"""The checkpoints in a store: their names, the newest intact one, and removal."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from andiron import errors
from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.on_disk import checkpoint_files, manifest
from andiron.checkpoint.store import LocalStore, NamedErrors, Store

log = logging.getLogger("andiron")


def newest_whole(place: Store | Path, run: str | None = None) -> tuple[Path, Checkpoint]:
    """The newest intact checkpoint in a store or folder, and the folder with its files.

    Newer damaged ones are set aside, each with a warning. With the identity of a `run`,
    another run's are skipped, with a warning too, as are those that lack only their frozen weights.
    Raises: DataError if there is none; FrozenFileError if one lacks only those.
    """
    store = as_store(place)
    aside: list[str] = []
    repairable: errors.FrozenFileError | None = None
    taken = {*entries(store)}
    for name in reversed(_checkpoints(taken)):
        folder = store.fetch(name)
        try:
            owner = manifest.read(folder).run
            if run is not None and owner not in (None, run):
                log.warning("checkpoint %s is of another run (%s) and is ignored", folder, owner)
                continue
            return folder, checkpoint_files.load(folder)
        except errors.FrozenFileError as error:
            log.warning("checkpoint %s is ignored: %s", name, error)
            repairable = repairable or error
        except errors.DataError as error:
            aside.append(set_aside(store, name, "damaged", taken))
            kept = f"it is kept as {aside[-1]}"
            log.warning("checkpoint %s is damaged and ignored: %s; %s", name, error, kept)
    tried = f" ({', '.join(aside)}: damaged)" if aside else ""
    raise repairable or errors.DataError(
        f"no checkpoint in {store}{tried}: nothing to resume from; restore one there, give the "
        "checkpoint.store that has one, or start another run"
    )


def names(place: Store | Path) -> list[str]:
    """The checkpoints in a store or folder, intact or not, oldest first.

    Raises: DataError if it cannot be read.
    """
    return _checkpoints(entries(as_store(place)))


def _checkpoints(entry_names: Iterable[str]) -> list[str]:
    places = map(contents.step_place, entry_names)
    return [contents.step_name(*place) for place in sorted(filter(None, places))]


def entries(store: Store) -> list[str]:
    """The names of everything in a store; raises as `names`."""
    try:
        return store.names()
    except OSError as error:
        raise errors.DataError(
            f"{store}: cannot be read ({error.strerror}); make it readable, or resume from a copy"
        ) from error


def set_aside(store: Store, name: str, ending: str, taken: set[str]) -> str:
    """Renames a checkpoint to <name>.<ending> or <name>.<ending>.2 ...; returns its final name.

    The new name is added to `taken`, the names in the store. If renaming fails, a warning is logged
    and the checkpoint keeps its name.
    """
    new_name, number = f"{name}.{ending}", 1
    while new_name in taken:
        number += 1
        new_name = f"{name}.{ending}.{number}"
    try:
        store.rename(name, new_name)
    except OSError as error:
        message = "%s could not be renamed to %s (%s)"
        log.warning(message, store.fetch(name), new_name, error.strerror)
        return name
    taken.add(new_name)
    return new_name


def set_newer_aside(store: Store, checkpoints: Iterable[str], since: str) -> None:
    """Renames checkpoints newer than that from which the run resumes, each with a warning."""
    taken = {*store.names()}
    for name in checkpoints:
        kept = set_aside(store, name, "unused", taken)
        why = f"is newer than {since}, from which the run resumes; it was renamed to {kept}"
        log.warning("checkpoint %s %s", name, why)


def remove(store: Store, name: str) -> None:
    """Removes the files that a checkpoint's manifest lists; a warning names any others.

    Raises: OSError if that fails; DataError, removing nothing, if the manifest is damaged.
    """
    folder = store.fetch(name)
    left = store.remove(name, [*manifest.read(folder).entries, contents.MANIFEST])
    if left:
        log.warning("%s: removed, except for other files: %s", folder, ", ".join(left))


def has_manifest(store: Store, name: str) -> bool:
    """Whether an intact manifest lists which files of a checkpoint may be removed."""
    try:
        return manifest.read(store.fetch(name)).name == name
    except errors.DataError:
        return False


def as_store(place: object) -> Store:
    """The store itself, with every failure as an OSError, or the store of a local folder.

    Raises: ConfigError for an object that is not a store.
    """
    if isinstance(place, Path):
        return LocalStore(place)
    if not isinstance(place, Store):
        why = "it lacks methods of andiron.checkpoint.Store: names, write, fetch, rename ..."
        raise errors.ConfigError(f"checkpoint.store: {place!r} is not a store: {why}")
    is_safe = type(place) in (LocalStore, NamedErrors)
    return place if is_safe else cast(Store, NamedErrors(place))

"""The folder of a run's checkpoints: which are there, which is the newest whole one, and what may be removed."""

import logging
from pathlib import Path

from andiron import errors, files
from andiron.checkpoint import checkpoint_files, contents, manifest, step_names
from andiron.checkpoint.contents import Checkpoint

LATEST = "latest.json"
log = logging.getLogger("andiron")


def newest_whole(shelf: Path) -> tuple[Path, Checkpoint]:
    """The newest checkpoint in a folder that is whole, and where it lies.

    Newer ones that are damaged are set aside, each with a warning.
    Raises: DataError if there is none.
    """
    aside: list[str] = []
    for name in reversed(names(shelf)):
        try:
            return shelf / name, checkpoint_files.load(shelf / name)
        except errors.DataError as error:
            put = set_aside(shelf / name, "damaged")
            aside.append(put.name)
            log.warning(
                "checkpoint %s is damaged and not used: %s; it is kept as %s", name, error, put.name
            )
    tried = f" ({', '.join(aside)}: damaged)" if aside else ""
    raise errors.DataError(
        f"no checkpoint in {shelf}{tried}: nothing to go on from; put one back there, or overwrite=true starts it again"
    )


def names(shelf: Path) -> list[str]:
    """The checkpoints in a folder, whole or not, oldest first.

    Raises: DataError if the folder cannot be read.
    """
    try:
        places = (
            [step_names.place_of(path.name) for path in shelf.iterdir()] if shelf.is_dir() else []
        )
    except OSError as error:
        raise errors.DataError(
            f"{shelf}: cannot be read ({error.strerror}); mend that, or go on elsewhere"
        ) from error
    return [step_names.name_of(*place) for place in sorted(place for place in places if place)]


def set_aside(path: Path, ending: str) -> Path:
    """Renames a checkpoint to <name>.<ending>, or <name>.<ending>.2 ...; where it is now, if only a warning came of it."""
    target, number = path.with_name(f"{path.name}.{ending}"), 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.{ending}.{number}")
    try:
        return path.rename(target)
    except OSError as error:
        log.warning(
            "%s could not be renamed to %s (%s); it stays where it is",
            path,
            target.name,
            error.strerror,
        )
        return path


def remove(path: Path) -> None:
    """Removes those files of a checkpoint that its manifest lists; what else lies in the folder stays, told by a warning.

    Raises: OSError if it cannot be; DataError if there is no sound manifest, and nothing is removed then.
    """
    left = files.remove_folder(path, [*manifest.read(path).entries, contents.MANIFEST])
    if left:
        log.warning("%s: removed, but not what is no part of it: %s", path, ", ".join(left))


def note_latest(shelf: Path, name: str) -> None:
    """Has latest.json name this checkpoint.

    Raises: OSError if it cannot be written.
    """
    place = step_names.place_of(name)
    files.write_json(shelf / LATEST, {"name": name, "updates": place[0] if place else None})


def remove_leftovers(shelf: Path) -> None:
    """Removes what a killed process left half written or half removed: of checkpoints' names, and of their files only.

    Raises: OSError if it cannot be.
    """
    for path, name in files.partials(shelf).items():
        if name == LATEST:
            files.remove_partial(path, [])
        elif step_names.place_of(name) and path.is_dir():
            files.remove_partial(
                path, [file.name for file in path.iterdir() if contents.is_own(file.name)]
            )

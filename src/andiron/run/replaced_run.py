"""An earlier run that a new one replaces: moved aside, then removed or put back.

Only files that the run wrote are removed; what else lay among them goes back to its place.
"""

import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from andiron import files
from andiron.run_folder import PROJECTOR, TRACES, RunFolder

EVENTS = "events.out.tfevents.*"
CHECKPOINT_MANIFEST, LATEST = "manifest.json", "latest.json"  # read here without importing torch
SAVED, PLAIN = ("step-", "update-"), (CHECKPOINT_MANIFEST, "state.json")
HYDRA_FILES = ("config.yaml", "hydra.yaml", "overrides.yaml")
log = logging.getLogger("andiron")


class ReplacedRun:
    """The files of the run in `folder`, moved to a folder beside it.

    A run that was killed before it began has left the one that it replaced there: that one stands.
    """

    def __init__(self, folder: RunFolder):
        self._folder = folder
        path = folder.path
        earlier = [] if folder.has_checkpoint() else asides(folder)
        if earlier:
            self.aside = RunFolder(earlier[0])
            remove(folder)
            path.mkdir(exist_ok=True)
            return
        self.aside = RunFolder(path.with_name(f"{path.name}.replaced-{secrets.token_hex(4)}"))
        self.aside.path.mkdir()
        for entry in own_entries(folder):
            entry.rename(self.aside.path / entry.name)

    def remove(self) -> None:
        """Removes what the run wrote; other files that lay in its folders are put back."""
        _remove_aside(self.aside, self._folder)

    def restore(self) -> None:
        """Puts the run back; the new one has removed its own files by then."""
        _put_back(self.aside, self._folder)


def asides(folder: RunFolder) -> list[Path]:
    """The folders to which runs that were replaced in this folder are moved."""
    path = folder.path
    return [each for each in sorted(path.parent.iterdir()) if _is_aside(each.name, path.name)]


def _is_aside(name: str, of: str) -> bool:
    return re.fullmatch(re.escape(of) + r"\.replaced-[0-9a-f]{8}", name) is not None


def remove_asides(folder: RunFolder) -> None:
    """Removes the runs that this one has replaced, if it was killed before it could."""
    for aside in asides(folder):
        _remove_aside(RunFolder(aside), folder)


def _remove_aside(aside: RunFolder, folder: RunFolder) -> None:
    remove(aside)
    _put_back(aside, folder)
    if aside.path.exists():
        log.warning("%s: kept, because the new run has files of these names", aside.path)


def _put_back(aside: RunFolder, folder: RunFolder) -> None:
    for entry in sorted(aside.path.rglob("*")):
        if entry.is_dir() and not entry.is_symlink():
            continue
        place = folder.path / entry.relative_to(aside.path)
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                entry.rename(place)
    _remove_empty(aside.path)


def own_entries(folder: RunFolder) -> list[Path]:
    """The files and folders at the top of a run's folder that have the name of one of its own.

    Those that a killed process left half written are among them.
    """
    final_names = files.partials(folder.path)
    entries = sorted(folder.path.iterdir())
    return [path for path in entries if folder.owns(final_names.get(path, path.name))]


def own_links(folder: RunFolder) -> list[str]:
    """The names of links among a run's own files; those of W&B and MLflow are their own."""
    of_libraries = (folder.wandb, folder.mlflow)
    links = list[Path]()
    for entry in own_entries(folder):
        if entry not in of_libraries:
            inside = [] if entry.is_symlink() else entry.rglob("*")  # where it leads is not walked
            links += [path for path in (entry, *inside) if path.is_symlink()]
    return [path.relative_to(folder.path).as_posix() for path in links]


def remove(folder: RunFolder) -> None:
    """Removes the files of a run, and the folders among its own that are empty then.

    To be called where `own_links` finds none: files would be removed through a link.
    """
    for path in _written(folder):
        with suppress(OSError, ValueError):  # ValueError: a manifest may list a name with a NUL
            path.unlink()
    for entry in own_entries(folder):
        _remove_empty(entry)
    _remove_empty(folder.path)


def _written(folder: RunFolder) -> Iterator[Path]:
    """The files that a run wrote: at the top by name, in checkpoints as their manifests list them.
    """
    yield from (entry for entry in own_entries(folder) if entry.is_symlink() or entry.is_file())
    yield from (folder.hydra / name for name in HYDRA_FILES)
    for parent, patterns in (
        (folder.tensorboard, (EVENTS, *(f"*/{name}" for name in (EVENTS, *PROJECTOR)))),
        (folder.profile, TRACES),
    ):
        if not parent.is_symlink():
            yield from (path for pattern in patterns for path in parent.glob(pattern))
    for parent in (folder.checkpoints, folder.nonfinite):
        if parent.is_dir() and not parent.is_symlink():
            yield parent / LATEST
            for saved in parent.iterdir():
                yield from _listed(saved)
            for partial, name in files.partials(parent).items():
                yield from _half_written(partial, name)


def _listed(saved: Path) -> list[Path]:
    try:
        listed = files.read_json(saved / CHECKPOINT_MANIFEST)["files"]
    except (OSError, ValueError, LookupError, TypeError):  # no checkpoint, or damaged: it stays
        return []
    names = [name for name in listed if isinstance(name, str) and Path(name).name == name]
    return [saved / name for name in (*names, CHECKPOINT_MANIFEST)]


def _half_written(partial: Path, name: str) -> list[Path]:
    """What a killed process left of a checkpoint or of the name of the newest."""
    if name == LATEST:
        return [partial]
    if partial.is_symlink() or not partial.is_dir() or not name.startswith(SAVED):
        return []
    return [path for path in partial.iterdir() if path.match("*.safetensors") or path.name in PLAIN]


def _remove_empty(path: Path) -> None:
    """Removes folders that hold no file."""
    if path.is_symlink() or not path.is_dir():
        return
    for inner in list(path.iterdir()):
        _remove_empty(inner)
    with suppress(OSError):
        path.rmdir()

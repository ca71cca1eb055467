"""An earlier run that a new one replaces: its folder is renamed aside whole, then comes back.

It waits beside its place, as `.NAME.replaced`, until the new run has begun. Then the files of the
earlier run are removed, never through a link, and all others come back. After an earlier error or
kill the whole folder comes back.
"""

import errno
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from andiron import errors
from andiron.disk import append_only, checksums, files, guarded_folders
from andiron.plain import readable, wings
from andiron.run_folder import CSV_HEADER, PROJECTOR, RunFolder
from andiron.shell.run import run_record, status

CHECKPOINT_MANIFEST, LATEST = "manifest.json", "latest.json"  # read here without importing torch
SET_ASIDE = r"(\.(damaged|unused)(\.[0-9]+)?)?"  # after the name that its manifest has
PLAIN = CHECKPOINT_MANIFEST, "state.json", "model.safetensors.index.json"
log = logging.getLogger("andiron")


def replace(folder: RunFolder) -> None:
    """Renames the folder with the run in it aside, and begins a new run in its place.

    Raises: RunFolderError if it cannot be renamed, as a mount point cannot; OSError if the new run
    cannot be written. The folder is then as before.
    """
    place, aside = _places(folder)
    try:
        if os.path.lexists(aside):
            raise OSError(errno.EEXIST, f"{aside} is in the way; move it elsewhere")
        if Path.cwd().is_relative_to(place):
            raise OSError(errno.EBUSY, "it is the working directory")
        place.rename(aside)
    except OSError as error:
        raise errors.RunFolderError(
            f"{folder.path}: cannot be renamed, to keep its run until the new one has begun "
            f"({files.reason(error)}); choose another hydra.run.dir, or remove the run first: "
            f"`{wings.command(f'runs rm {folder.path}')}`"
        ) from error
    try:
        place.mkdir(exist_ok=True)  # made by another process that waits to claim it
        shutil.copymode(aside, place)
        for name in append_only.made_in(folder.path) - names(RunFolder(aside)):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (aside / name).rename(place / name)
        run_record.begin(folder)
    except BaseException:
        undo(folder)
        raise


def is_aside(folder: RunFolder) -> bool:
    """Whether an earlier run, or what is left of its folder, waits beside this one."""
    return _is_folder(_places(folder)[1])


def discard(folder: RunFolder) -> None:
    """Removes the files of the replaced run, so that the new run stays; others come back."""
    place, aside = _places(folder)
    replaced = RunFolder(aside)
    if run_record.holds_run(replaced):
        remove(replaced)
    if not is_aside(folder):
        return
    left = [path for path in _inside(own_entries(replaced)) if not path.is_dir()]
    if names := readable.joined([path.relative_to(aside).as_posix() for path in left]):
        why = "the manifest of the replaced run does not list them"
        log.warning("%s: left there, since %s: %s", place, why, names)
    _merge(aside, place)
    if aside.exists():
        log.warning("%s: kept, because the run has files of these names", aside)


def undo(folder: RunFolder) -> None:
    """Removes a run that has not begun; the run that it replaced comes back."""
    place, aside = _places(folder)
    if run_record.holds_run(folder):
        remove(folder)
    if is_aside(folder) and run_record.holds_run(RunFolder(aside)):
        _merge(place, aside)
        aside.rename(place)


def settle(folder: RunFolder) -> None:
    """Completes or undoes a replacement that a killed process left: one run remains.

    Never call it while a process trains there.
    """
    if is_aside(folder):  # no link: a stranger's would lead to a run of the user's
        has_begun = run_record.holds_run(folder) and not status.is_untrained(folder)
        (discard if has_begun else undo)(folder)


def _places(folder: RunFolder) -> tuple[Path, Path]:
    """The folder itself, and the place of the run that it replaces."""
    place = Path(os.path.realpath(folder.path))
    return place, place.parent / f".{place.name}.replaced"


def _merge(source: Path, place: Path) -> None:
    """Moves a file or folder unless its place is taken; merges a folder into a folder."""
    with suppress(OSError):
        if not os.path.lexists(place):
            source.rename(place)
        elif _is_folder(source) and _is_folder(place):
            for entry in sorted(source.iterdir()):
                _merge(entry, place / entry.name)
            source.rmdir()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def own_entries(folder: RunFolder) -> list[Path]:
    """The top-level files and folders with names that a run uses.

    They include partial files that a killed process left.
    """
    final_names = files.partials(folder.path)
    entries = sorted(folder.path.iterdir())
    return [path for path in entries if folder.owns(final_names.get(path, path.name))]


def own_links(folder: RunFolder) -> list[str]:
    """The names of links among a run's own files, except inside W&B's and MLflow's folders."""
    links = [path for path in _inside(own_entries(folder)) if path.is_symlink()]
    places = [path for path in links if not {folder.wandb, folder.mlflow} & {*path.parents}]
    return [path.relative_to(folder.path).as_posix() for path in places]


def remove(folder: RunFolder, *, keeps_manifest: bool = False) -> None:
    """Removes the files of a run to which no link leads, and its folders that are empty then.

    The manifest, which lists the files, is removed last, and only if all others could be.
    """
    real = Path(os.path.realpath(folder.path))
    written = sorted(_run_files(folder), key=folder.status.__eq__)  # it says that nothing is lost
    for path in written:
        above = path.parent.relative_to(folder.path)
        with suppress(OSError, ValueError):  # ValueError: a manifest may list a name with a NUL
            if Path(os.path.realpath(path.parent)) == real / above:
                path.unlink()
    for entry in filter(_is_folder, own_entries(folder)):
        for inner, _, _ in os.walk(entry, topdown=False):
            with suppress(OSError):
                os.rmdir(inner)
    if not (keeps_manifest or any(map(os.path.lexists, written))):
        with suppress(OSError):
            folder.manifest.unlink()
            folder.path.rmdir()


def _run_files(folder: RunFolder) -> Iterator[Path]:
    """The files of the run except its manifest.

    The manifest lists them, and the checkpoints' own manifests, which carry the run's identity,
    list theirs. A killed process left half-written ones.
    """
    manifest = run_record.manifest_of(folder)
    for name in {*manifest.entries, *names(folder)}:
        if folder.owns(name.partition("/")[0]):
            yield folder.path / name
    for parent, run in ((folder.checkpoints, manifest.run), (folder.nonfinite, None)):
        yield parent / LATEST
        for saved in parent.glob("*"):
            yield from _checkpoint_files(saved, run)
    for path in _inside(own_entries(folder)):
        is_in_half = files.is_partial(path.parent) and _is_in_checkpoint(path.name)
        if (is_in_half or files.is_partial(path)) and not path.is_dir():
            yield path


def _checkpoint_files(saved: Path, run: str | None) -> list[Path]:
    """The files of a checkpoint of this run; a saved non-finite update has no identity."""
    try:
        plain = files.read_json(saved / CHECKPOINT_MANIFEST)
        if plain["sha256"] != checksums.own(plain) or plain.get("run") != run:
            return []
        if not re.fullmatch(re.escape(plain["name"]) + SET_ASIDE, saved.name):  # a copy
            return []
        names = [*filter(_is_in_checkpoint, plain["files"]), CHECKPOINT_MANIFEST]
    except (OSError, ValueError, LookupError, TypeError):  # not a checkpoint, or damaged: kept
        return []
    return [saved / name for name in names]


def _is_in_checkpoint(name: str) -> bool:
    """Whether a file of a checkpoint can have that name."""
    return Path(name).name == name and (name.endswith(".safetensors") or name in PLAIN)


def _inside(entries: list[Path]) -> Iterator[Path]:
    """The entries, and all that is in those that are folders and no links."""
    for entry in entries:
        yield entry
        if not entry.is_symlink():
            yield from sorted(entry.rglob("*"))


@contextmanager
def guarded(folder: RunFolder) -> Iterator[None]:
    """A context in which the run's new files are listed, and no file of others is written.

    Raises: FileExistsError if this process has opened a file that the run did not write.
    """
    save = partial(run_record.list_written, folder)
    with guarded_folders.guarded(folder.path, names(folder), save):
        append_only.list_open_files()
        yield


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

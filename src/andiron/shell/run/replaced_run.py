"""An earlier run that a new one replaces: moved aside, then removed or put back.

It is kept in a hidden folder inside the run's, named by its identity. A kill leaves one of three:
- the manifest in the folder is the earlier run's: it was being moved, and is put back;
- that manifest is the new run's, which has not begun: the earlier run is put back in its place;
- the hidden folder is named as being removed: the new run has begun, and stays.
Only files of the run are removed; other files among them are put back.
"""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from andiron import errors
from andiron.disk import checksums, files
from andiron.plain import readable
from andiron.run_folder import ASIDE, REMOVED, REPLACED, RunFolder
from andiron.shell.run import run_record, written_files

CHECKPOINT_MANIFEST, LATEST = "manifest.json", "latest.json"  # read here without importing torch
SET_ASIDE = r"(\.(damaged|unused)(\.[0-9]+)?)?"  # after the name that its manifest has
SAVED, PLAIN = ("step-", "update-"), (CHECKPOINT_MANIFEST, "state.json")
log = logging.getLogger("andiron")


def replace(folder: RunFolder) -> Path:
    """Moves the run in the folder aside and begins a new one; returns where it was moved.

    Raises: OSError if the folder cannot be written; the run is then put back.
    """
    aside = RunFolder(_free(folder.path / f"{REPLACED}{run_record.identity(folder)}"))
    aside.path.mkdir()
    try:
        for entry in own_entries(folder):
            if entry != folder.manifest:
                entry.rename(aside.path / entry.name)
        # the folder has a manifest at every moment, and so a run
        files.write(aside.manifest, folder.manifest.read_bytes())
        run_record.begin(folder, files.write)
    except BaseException:
        restore(folder, aside.path)
        raise
    return aside.path


def discard(folder: RunFolder, aside: Path) -> None:
    """Removes the files of the replaced run, so that the new run stays.

    Other files in its folders are put back, with a warning that names them.
    """
    if aside.name.startswith(REPLACED):
        aside = aside.rename(_free(aside.with_name(aside.name.replace(REPLACED, REMOVED))))
    removed = RunFolder(aside)
    if removed.manifest.exists():
        remove(removed)
        if paths := sorted(path for path in aside.rglob("*") if not path.is_dir()):
            names = readable.joined([path.relative_to(aside).as_posix() for path in paths])
            why = "the manifest of the replaced run does not list them"
            log.warning("%s: left there, since %s: %s", folder.path, why, names)
    _move_back(folder, removed)


def _free(path: Path) -> Path:
    """The path, with a number if it is taken by what is left of an earlier replacement."""
    while os.path.lexists(path):
        path = path.with_name(f"{path.name}.2")
    return path


def restore(folder: RunFolder, aside: Path) -> None:
    """Puts the replaced run back, in place of a new one that has not begun."""
    replaced = RunFolder(aside)
    if replaced.manifest.exists():
        if not run_record.holds_run(folder, run_record.identity(replaced)):
            remove(folder, keeps_manifest=True)
        replaced.manifest.replace(folder.manifest)
    _move_back(folder, replaced)


def settle(folder: RunFolder) -> None:
    """Completes or undoes a replacement that a killed process left: one run remains.

    Never call it while a process trains there.
    """
    for path in asides(folder):
        aside, run = RunFolder(path), path.name.partition("-")[2][: 2 * run_record.IDENTITY_BYTES]
        is_removed, is_here = path.name.startswith(REMOVED), run_record.holds_run(folder, run)
        if aside.manifest.exists() and not run_record.holds_run(aside, run):
            log.warning("%s: left alone: its manifest is not that of the run %s", path, run)
        elif aside.manifest.exists() and is_removed and is_here:
            log.warning("%s: left alone: the run %s is not replaced", path, run)
        elif is_removed:
            discard(folder, path)
        else:
            restore(folder, path)


def asides(folder: RunFolder) -> list[Path]:
    """The folders inside this one that hold replaced runs, and links with such names."""
    paths = sorted(path for path in folder.path.iterdir() if ASIDE.fullmatch(path.name))
    return [path for path in paths if path.is_symlink() or path.is_dir()]


def _move_back(folder: RunFolder, aside: RunFolder) -> None:
    _remove_empty(aside.path)
    if aside.path.is_dir():
        for entry in own_entries(aside):
            _move(entry, folder.path / entry.name)
        _remove_empty(aside.path)
    if aside.path.exists():
        log.warning("%s: kept, because the run has files of these names", aside.path)


def own_entries(folder: RunFolder) -> list[Path]:
    """The top-level files and folders with names that a run uses.

    They include partial files that a killed process left.
    """
    final_names = files.partials(folder.path)
    entries = sorted(folder.path.iterdir())
    return [path for path in entries if folder.owns(final_names.get(path, path.name))]


def own_links(folder: RunFolder) -> list[str]:
    """The names of links among a run's own files, except inside W&B's and MLflow's folders."""
    links = list(_links(folder))
    for aside in asides(folder):
        links += [aside] if aside.is_symlink() else _links(RunFolder(aside))
    return [path.relative_to(folder.path).as_posix() for path in links]


def _links(folder: RunFolder) -> Iterator[Path]:
    for entry in own_entries(folder):
        if entry.is_symlink():  # its target is not searched
            yield entry
        elif entry not in (folder.wandb, folder.mlflow):
            yield from filter(Path.is_symlink, entry.rglob("*"))


def refuse_inner_runs(folder: RunFolder) -> None:
    """Raises: RunFolderError if another run lies among the files of this one."""
    for entry in own_entries(folder):
        for path in entry.rglob(folder.manifest.name):
            if run_record.holds_run(RunFolder(path.parent)):
                raise errors.RunFolderError(
                    f"{path.parent}: is another run, among the files of this one; move it "
                    "elsewhere first"
                )


def remove(folder: RunFolder, *, keeps_manifest: bool = False) -> None:
    """Removes the files of a run, and then its empty folders.

    The manifest, which lists the files, is removed last, and only if all others could be. Call it
    only if `own_links` is empty: files would be removed through a link.
    """
    written = sorted(_run_files(folder), key=folder.status.__eq__)  # it says that nothing is lost
    for path in written:
        with suppress(OSError, ValueError):  # ValueError: a manifest may list a name with a NUL
            path.unlink()
    if not (keeps_manifest or any(map(os.path.lexists, written))):
        with suppress(OSError):
            folder.manifest.unlink()
    for entry in own_entries(folder):
        _remove_empty(entry)
    with suppress(OSError):
        folder.path.rmdir()


def _run_files(folder: RunFolder) -> Iterator[Path]:
    """The files of the run except its manifest.

    The manifest lists them, and the checkpoints' own manifests, which carry the run's identity,
    list theirs.
    """
    manifest = run_record.manifest_of(folder)
    for name in {*manifest.entries, *written_files.names(folder)}:
        if folder.owns(name.partition("/")[0]):
            yield folder.path / name
    yield from (path for path, name in files.partials(folder.path).items() if folder.owns(name))
    for parent, owner in ((folder.checkpoints, manifest.run), (folder.nonfinite, None)):
        if parent.is_dir():
            yield parent / LATEST
            for saved in parent.iterdir():
                yield from _checkpoint_files(saved, owner)
            for partial, name in files.partials(parent).items():
                yield from _partial_files(partial, name)


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


def _partial_files(partial: Path, name: str) -> list[Path]:
    """The files that a killed process left of a checkpoint or of latest.json."""
    if name == LATEST:
        return [partial]
    if not partial.is_dir() or not name.startswith(SAVED):
        return []
    return [path for path in partial.iterdir() if _is_in_checkpoint(path.name)]


def _is_in_checkpoint(name: str) -> bool:
    """Whether a file of a checkpoint can have that name."""
    return Path(name).name == name and (name.endswith(".safetensors") or name in PLAIN)


def _move(source: Path, place: Path) -> None:
    """Moves a file or folder unless its place is taken; merges a folder into a folder."""
    if not os.path.lexists(place):
        with suppress(OSError):
            source.rename(place)
    elif not (source.is_symlink() or place.is_symlink()) and source.is_dir() and place.is_dir():
        for entry in sorted(source.iterdir()):
            _move(entry, place / entry.name)


def _remove_empty(path: Path) -> None:
    """Removes a folder and those inside it that hold no file."""
    if not path.is_symlink():
        for folder, _, _ in os.walk(path, topdown=False):  # of a file: nothing
            with suppress(OSError):
                os.rmdir(folder)

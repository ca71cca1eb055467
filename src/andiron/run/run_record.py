"""What a run folder has on record: the run's identity, and the checksum of each recorded file.

A manifest lists them; only a folder with a sound one holds a run. Every recorded file is written
and read through this module, so a file that was changed since is noticed before its content is
used. Whoever changes one on purpose accepts the change with
`python scripts/accept_changes.py <run folder>`.
"""

import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.config.schema import Train
from andiron.config.trust import LIST_ALONE, Trust
from andiron.disk import checksums, files
from andiron.disk.checksums import Entry
from andiron.run_folder import HYDRA_FILES, RunFolder

IDENTITY_BYTES = 8
IDENTITY = re.compile("[0-9a-f]{16}")  # part of a folder's name
Write = Callable[[Path, bytes], None]
Entries = dict[str, list[Entry]]  # by file; the old and the new content while one is replaced


@dataclass
class Manifest:
    """The identity of a run, and the checksum of each file that it has on record."""

    run: str
    entries: Entries = field(default_factory=dict)

    def write(self, folder: RunFolder, write: Write = files.write) -> None:
        """Replaces the manifest in the folder."""
        plain = {"run": self.run, "files": self.entries}
        write(folder.manifest, files.as_indented_json(checksums.signed(plain)))


def begin(folder: RunFolder, write: Write = files.write_new) -> Manifest:
    """The first manifest of a new run; with `files.write`, in place of an earlier run's.

    Raises: FileExistsError if another process has begun one.
    """
    manifest = Manifest(secrets.token_hex(IDENTITY_BYTES))
    manifest.write(folder, write)
    return manifest


def manifest_of(folder: RunFolder) -> Manifest:
    """The manifest in a run's folder.

    Raises: DataError if it is missing or damaged.
    """
    try:
        plain = files.read_json(folder.manifest)
    except (OSError, ValueError) as error:
        raise _damaged(folder.manifest, files.reason(error)) from error
    if not isinstance(plain, dict) or plain.keys() != {"run", "files", "sha256"}:
        raise _damaged(folder.manifest, "not a run's manifest")
    if plain["sha256"] != checksums.own(plain):
        raise _damaged(folder.manifest, "its own SHA-256 differs")
    run, entries = plain["run"], plain["files"]
    is_named = isinstance(run, str) and IDENTITY.fullmatch(run) and isinstance(entries, dict)
    if not is_named or not all(map(_are_entries, entries, entries.values())):
        raise _damaged(folder.manifest, "run or files are malformed")
    return Manifest(run, entries)


def identity(folder: RunFolder) -> str:
    """The run's identity, which its checkpoints carry too; raises as `manifest_of`."""
    return manifest_of(folder).run


def holds_run(folder: RunFolder, run: str | None = None) -> bool:
    """Whether there is a run in the folder, however it ended; with its identity, whether that one.
    """
    try:
        return run in (None, identity(folder))
    except errors.DataError:
        return False


def unlisted(folder: RunFolder) -> list[str]:
    """The files with a name that a run records, which its manifest does not list: not the run's."""
    listed = manifest_of(folder).entries
    there = [*folder.path.iterdir(), *map(folder.path.joinpath, HYDRA_FILES)]
    names = [_name(folder, path) for path in there if os.path.lexists(path)]
    return sorted(name for name in names if folder.records(name) and name not in listed)


def enclosing_run(path: Path) -> Path | None:
    """The nearest folder of a run that is `path`, or above it."""
    real = Path(os.path.realpath(path))
    return next((each for each in (real, *real.parents) if holds_run(RunFolder(each))), None)


def run_around(path: Path) -> Path | None:
    """The folder of the run among whose files a path lies."""
    real = Path(os.path.realpath(path))
    for parent in real.parents:
        folder = RunFolder(parent)
        if folder.owns(real.relative_to(parent).parts[0]) and holds_run(folder):
            return parent
    return None


def write(folder: RunFolder, contents: Mapping[Path, bytes]) -> None:
    """Replaces recorded files; a kill in between leaves files that the manifest still allows."""
    manifest = _manifest_or_first(folder)
    new = {_name(folder, path): checksums.entry_of(content) for path, content in contents.items()}
    old = {name: manifest.entries.get(name, []) for name in new}
    manifest.entries |= {name: [*old[name], entry] for name, entry in new.items()}
    manifest.write(folder)
    for path, content in contents.items():
        path.parent.mkdir(exist_ok=True)
        files.write(path, content)
    if any(old.values()):
        manifest.entries |= {name: [entry] for name, entry in new.items()}
        manifest.write(folder)


def write_json(folder: RunFolder, contents: Mapping[Path, Any]) -> None:
    """`write` for plain values as JSON."""
    write(folder, {path: files.as_indented_json(value) for path, value in contents.items()})


def announce(folder: RunFolder, *paths: Path) -> None:
    """Lists files that are written next, so that they are the run's even if it is killed."""
    manifest = _manifest_or_first(folder)
    manifest.entries = {_name(folder, path): [] for path in paths} | manifest.entries
    manifest.write(folder)


def add(folder: RunFolder, *paths: Path) -> None:
    """Puts files that are written already on record."""
    manifest = _manifest_or_first(folder)
    manifest.entries |= {_name(folder, path): [checksums.entry(path)] for path in paths}
    manifest.write(folder)


def check(folder: RunFolder, *paths: Path) -> None:
    """Refuses files that are not as the run wrote them.

    Raises: DataError naming the file that is missing, changed or not on record.
    """
    entries = manifest_of(folder).entries if paths else {}
    for path in paths:
        known = entries.get(_name(folder, path))
        if not known:
            raise _damaged(path, "not on record in the run's manifest")
        try:
            is_as_written = _is_one_of(known, path)
        except (OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if not is_as_written:
            raise errors.DataError(
                f"{path}: was changed since the run wrote it; restore it, or accept the change "
                f"with `python scripts/accept_changes.py {folder.path}`"
            )


def read_json(folder: RunFolder, path: Path) -> Any:
    """The plain value in a recorded JSON file.

    Raises: DataError if it is missing, changed or no JSON.
    """
    check(folder, path)
    try:
        return files.read_json(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def config(folder: RunFolder, trust: Trust = LIST_ALONE) -> Train:
    """The configuration on record, which names only what `trust` allows.

    Raises: DataError if it was changed; ConfigError as `Train.load`.
    """
    check(folder, folder.config)
    return Train.load(folder.config, trust)


def changed(folder: RunFolder) -> list[str]:
    """The names of recorded files that are missing, or not as the run wrote them."""
    return _changed(folder, manifest_of(folder))


def accept(folder: RunFolder) -> list[str]:
    """Takes the recorded files as they are now on record; the names of those that changed."""
    manifest = manifest_of(folder)
    names = _changed(folder, manifest)
    if names:
        for name in names:
            if (folder.path / name).is_file():
                manifest.entries[name] = [checksums.entry(folder.path / name)]
            else:
                del manifest.entries[name]
        manifest.write(folder)
    return names


def _manifest_or_first(folder: RunFolder) -> Manifest:
    """The manifest; a new one in a folder that was made again after the run's was removed."""
    return manifest_of(folder) if os.path.lexists(folder.manifest) else begin(folder)


def _changed(folder: RunFolder, manifest: Manifest) -> list[str]:
    found = []
    for name, known in manifest.entries.items():
        with suppress(OSError, ValueError):
            if _is_one_of(known, folder.path / name):
                continue
        found.append(name)
    return found


def _are_entries(name: str, entries: Any) -> bool:
    is_inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    return is_inside and isinstance(entries, list) and all(map(checksums.is_entry, entries))


def _name(folder: RunFolder, path: Path) -> str:
    return path.relative_to(folder.path).as_posix()


def _is_one_of(entries: list[Entry], path: Path) -> bool:
    """Whether a file has one of these contents; a file of another size is not read."""
    size = os.stat(path).st_size
    return any(entry["bytes"] == size for entry in entries) and checksums.entry(path) in entries


def _damaged(path: Path, problem: str) -> errors.DataError:
    return errors.DataError(f"{path}: missing or damaged ({problem}); restore it from a copy")

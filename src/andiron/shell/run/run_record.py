"""The manifest of a run folder: the run's identity, and the checksum of each recorded file.

Only a folder with a valid manifest holds a run. Every recorded file is written and read through
this module, so a changed file is detected before its content is used. To accept an intended change,
run `andiron accept-changes <run folder>`.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import checksums, files
from andiron.disk.checksums import Entry
from andiron.plain import wings
from andiron.plain.plain_values import strict_json
from andiron.run_folder import HYDRA_FILES, RunFolder
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import LIST_ALONE, Trust

IDENTITY_BYTES = 8
IDENTITY = re.compile("[0-9a-f]{16}")  # part of a folder's name
Write = Callable[[Path, bytes], None]
Entries = dict[str, list[Entry]]  # by file; the old and the new content while one is replaced


@dataclass
class Manifest:
    """The identity of a run, the checksum of each recorded file, and its other files."""

    run: str
    entries: Entries = field(default_factory=dict)
    written: list[str] | None = None  # None: by a version that did not list them

    def write(self, folder: RunFolder, write: Write = files.write) -> None:
        """Replaces the manifest in the folder."""
        written = {} if self.written is None else {"written": self.written}
        plain = {"run": self.run, "files": self.entries, **written}
        write(folder.manifest, files.as_indented_json(checksums.signed(plain)))


def begin(
    folder: RunFolder, write: Write = files.write_new, *, lists_files: bool = True
) -> Manifest:
    """Writes the first manifest of a new run; with `files.write`, replaces an earlier run's.

    Raises: FileExistsError if another process has begun a run.
    """
    identity = secrets.token_hex(IDENTITY_BYTES)
    manifest = Manifest(identity, written=[] if lists_files else None)
    manifest.write(folder, write)
    return manifest


def manifest_of(folder: RunFolder) -> Manifest:
    """The manifest in a run's folder.

    Raises: DataError if it is missing or damaged.
    """
    try:
        plain = files.read_json(folder.manifest)
    except (OSError, ValueError) as error:
        raise _damage_error(folder.manifest, files.reason(error)) from error
    match plain:
        case {"run": str(run), "files": dict(entries), "sha256": sha256, **others}:
            if sha256 != checksums.own(plain):
                raise _damage_error(folder.manifest, "its own SHA-256 differs")
            written: Any = others.pop("written", None)
            are_valid = all(map(_is_valid_entry, entries, entries.values()))
            are_names = isinstance(written, list | None) and all(map(_is_inside, written or ()))
            if IDENTITY.fullmatch(run) and are_valid and are_names and not others:
                return Manifest(run, entries, written)
    raise _damage_error(folder.manifest, "not a run's manifest")


def identity(folder: RunFolder) -> str:
    """The run's identity, which its checkpoints carry too; raises as `manifest_of`."""
    return manifest_of(folder).run


def holds_run(folder: RunFolder, run: str | None = None) -> bool:
    """Whether the folder holds a run, finished or not; with `run`, whether it has that identity."""
    try:
        return run in (None, identity(folder))
    except errors.DataError:
        return False


def unlisted(folder: RunFolder) -> list[str]:
    """Files named like recorded ones that the manifest does not list: they are not the run's."""
    listed = manifest_of(folder).entries
    paths = [*folder.path.iterdir(), *map(folder.path.joinpath, HYDRA_FILES)]
    names = [_name_in(folder, path) for path in paths if os.path.lexists(path)]
    return sorted(name for name in names if folder.records(name) and name not in listed)


def enclosing_run(path: Path) -> Path | None:
    """The nearest run folder at or above `path`."""
    real = Path(os.path.realpath(path))
    return next((folder for folder in (real, *real.parents) if holds_run(RunFolder(folder))), None)


def run_around(path: Path) -> Path | None:
    """The folder of the run that owns the file or folder at `path`."""
    real = Path(os.path.realpath(path))
    for parent in real.parents:
        folder = RunFolder(parent)
        if folder.owns(real.relative_to(parent).parts[0]) and holds_run(folder):
            return parent
    return None


def write(folder: RunFolder, contents: Mapping[Path, bytes]) -> None:
    """Replaces recorded files; meanwhile the manifest allows both contents, in case of a kill."""
    manifest = _manifest_or_first(folder)
    new = {
        _name_in(folder, path): checksums.entry_of(content) for path, content in contents.items()
    }
    old = {name: manifest.entries.get(name, []) for name in new}
    manifest.entries.update({name: [*old[name], entry] for name, entry in new.items()})
    manifest.write(folder)
    for path, content in contents.items():
        path.parent.mkdir(exist_ok=True)
        files.write(path, content)
    if any(old.values()):
        manifest.entries.update({name: [entry] for name, entry in new.items()})
        manifest.write(folder)


def write_json(folder: RunFolder, contents: Mapping[Path, object]) -> None:
    """`write` for plain values as strict JSON."""
    write(folder, {path: f"{strict_json(value, 2)}\n".encode() for path, value in contents.items()})


def announce(folder: RunFolder, *paths: Path) -> None:
    """Lists files before they are written, so that they are the run's even after a kill."""
    manifest = _manifest_or_first(folder)
    for path in paths:
        manifest.entries.setdefault(_name_in(folder, path), [])
    manifest.write(folder)


def add(folder: RunFolder, *paths: Path) -> None:
    """Records the checksums of files that are already written."""
    manifest = _manifest_or_first(folder)
    manifest.entries.update({_name_in(folder, path): [checksums.entry(path)] for path in paths})
    manifest.write(folder)


def list_written(folder: RunFolder, names: Iterable[str]) -> None:
    """Lists the files that the run wrote beside its recorded ones."""
    manifest = _manifest_or_first(folder)
    replace(manifest, written=sorted(names)).write(folder)


def check(folder: RunFolder, *paths: Path) -> None:
    """Refuses files that are not as the run wrote them.

    Raises: DataError naming the file that is missing, changed or not on record.
    """
    entries = manifest_of(folder).entries if paths else {}
    for path in paths:
        recorded = entries.get(_name_in(folder, path))
        if not recorded:
            raise _damage_error(path, "not on record in the run's manifest")
        try:
            is_as_written = _has_content_of(recorded, path)
        except (OSError, ValueError) as error:
            raise _damage_error(path, str(error)) from error
        if not is_as_written:
            raise errors.DataError(
                f"{path}: was changed since the run wrote it; restore it, or accept the change "
                f"with `{wings.command(f'accept-changes {folder.path}')}`"
            )


def read_json(folder: RunFolder, path: Path) -> dict[str, Any]:
    """The mapping in a recorded JSON file.

    Raises: DataError if it is missing, changed or not a JSON object.
    """
    check(folder, path)
    try:
        content = files.read_json(path)
    except (OSError, ValueError) as error:
        raise _damage_error(path, str(error)) from error
    if not isinstance(content, dict):
        raise errors.DataError(f"{path}: is not a JSON object; restore it from a copy")
    return content


def config(folder: RunFolder, trust: Trust = LIST_ALONE) -> Train:
    """The recorded configuration, which may name only what `trust` allows.

    Raises: DataError if it was changed; ConfigError as `Train.load`.
    """
    check(folder, folder.config)
    return Train.load(folder.config, trust)


def changed(folder: RunFolder) -> list[str]:
    """The names of recorded files that are missing, or not as the run wrote them."""
    names = []
    for name, recorded in manifest_of(folder).entries.items():
        with suppress(OSError, ValueError):
            if _has_content_of(recorded, folder.path / name):
                continue
        names.append(name)
    return names


def accept(folder: RunFolder) -> list[str]:
    """Records the current checksums of recorded files; returns the names of those that changed."""
    manifest, names = manifest_of(folder), changed(folder)
    for name in names:
        del manifest.entries[name]
        if (path := folder.path / name).is_file():
            manifest.entries[name] = [checksums.entry(path)]
    if names:
        manifest.write(folder)
    return names


def _manifest_or_first(folder: RunFolder) -> Manifest:
    """The manifest; a new one if the run's folder was removed and made again."""
    return manifest_of(folder) if os.path.lexists(folder.manifest) else begin(folder)


def _is_inside(name: object) -> bool:
    return isinstance(name, str) and not Path(name).is_absolute() and ".." not in Path(name).parts


def _is_valid_entry(name: str, entries: object) -> bool:
    return _is_inside(name) and isinstance(entries, list) and all(map(checksums.is_entry, entries))


def _name_in(folder: RunFolder, path: Path) -> str:
    return path.relative_to(folder.path).as_posix()


def _has_content_of(entries: list[Entry], path: Path) -> bool:
    """Whether a file has one of these contents; a file of another size is not read."""
    size = os.stat(path).st_size
    return any(entry["bytes"] == size for entry in entries) and checksums.entry(path) in entries


def _damage_error(path: Path, problem: str) -> errors.DataError:
    return errors.DataError(f"{path}: missing or damaged ({problem}); restore it from a copy")

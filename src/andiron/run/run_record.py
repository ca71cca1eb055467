"""What a run folder has on record: the run's identity, and the checksum of each recorded file.

A manifest lists them. Every recorded file is written and read through this module, so a file that
was changed since is noticed before its content is used. Whoever changes one on purpose accepts the
change with `python scripts/accept_changes.py <run folder>`.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from andiron import errors, files
from andiron.config.schema import Train
from andiron.config.trust import LIST_ALONE, Trust
from andiron.run_folder import RunFolder

PIECE_BYTES = 4 * 2**20
IDENTITY = 16  # hexadecimal digits
Digests = dict[str, list[str]]  # SHA-256 of each file by its name in the folder; of old and new
# content while a file is being replaced


@dataclass
class Manifest:
    """The identity of a run, and the SHA-256 of each file that it has on record."""

    run: str
    digests: Digests = field(default_factory=dict)

    def write(self, folder: RunFolder) -> None:
        """Replaces the manifest in the folder."""
        plain = {"run": self.run, "files": self.digests}
        files.write_json(folder.manifest, {**plain, "sha256": _own_digest(plain)})


def begin(folder: RunFolder) -> Manifest:
    """A run's first manifest, written to its folder; one of an older version may have files."""
    earlier = [folder.config, folder.provenance, folder.data, folder.param_groups, folder.summary]
    found = [*earlier, *folder.hydra.glob("*.yaml"), *folder.path.glob("model*.safetensors")]
    digests = {_name(folder, path): [_digest(path)] for path in found if path.is_file()}
    manifest = Manifest(secrets.token_hex(IDENTITY // 2), digests)
    manifest.write(folder)
    return manifest


def manifest_of(folder: RunFolder) -> Manifest | None:
    """The manifest in a run's folder; None for runs of versions that wrote none.

    Raises: DataError if it is damaged.
    """
    try:
        plain = files.read_json(folder.manifest)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged(folder.manifest, str(error)) from error
    if not isinstance(plain, dict) or plain.keys() != {"run", "files", "sha256"}:
        raise _damaged(folder.manifest, "not a run's manifest")
    if plain.pop("sha256") != _own_digest(plain):
        raise _damaged(folder.manifest, "its own SHA-256 differs")
    digests = plain["files"]
    is_sound = isinstance(plain["run"], str) and isinstance(digests, dict)
    if not is_sound or not all(map(_is_entry, digests, digests.values())):
        raise _damaged(folder.manifest, "run or files are not as a run writes them")
    return Manifest(plain["run"], digests)


def identity(folder: RunFolder) -> str | None:
    """The run's identity, which its checkpoints carry too; None for runs of older versions."""
    manifest = manifest_of(folder)
    return None if manifest is None else manifest.run


def write(folder: RunFolder, contents: Mapping[Path, bytes]) -> None:
    """Replaces recorded files; a kill in between leaves files that the manifest still allows."""
    manifest = manifest_of(folder) or begin(folder)
    digests = {_name(folder, path): _sha256(content) for path, content in contents.items()}
    old = {name: manifest.digests.get(name, []) for name in digests}
    manifest.digests |= {name: [*old[name], digest] for name, digest in digests.items()}
    manifest.write(folder)
    for path, content in contents.items():
        path.parent.mkdir(exist_ok=True)
        files.write(path, content)
    if any(old.values()):
        manifest.digests |= {name: [digest] for name, digest in digests.items()}
        manifest.write(folder)


def write_json(folder: RunFolder, contents: Mapping[Path, Any]) -> None:
    """`write` for plain values as JSON."""
    write(folder, {path: files.as_indented_json(value) for path, value in contents.items()})


def add(folder: RunFolder, *paths: Path) -> None:
    """Puts files that are written already on record."""
    manifest = manifest_of(folder) or begin(folder)
    manifest.digests |= {_name(folder, path): [_digest(path)] for path in paths}
    manifest.write(folder)


def check(folder: RunFolder, *paths: Path) -> None:
    """Refuses files that are not as the run wrote them.

    Raises: DataError naming the file that is missing, changed or not on record.
    """
    manifest = manifest_of(folder)
    for path in paths if manifest else ():
        known = manifest.digests.get(_name(folder, path)) if manifest else None
        if known is None:
            raise _damaged(path, "not on record in the run's manifest")
        try:
            digest = _digest(path)
        except (OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if digest not in known:
            raise errors.DataError(
                f"{path}: was changed since the run wrote it (SHA-256 {digest[:12]}..., not "
                f"{known[-1][:12]}...); restore it, or accept the change with "
                f"`python scripts/accept_changes.py {folder.path}`"
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
    manifest = manifest_of(folder) or Manifest("")
    found = []
    for name in manifest.digests:
        try:
            check(folder, folder.path / name)
        except errors.DataError:
            found.append(name)
    return found


def accept(folder: RunFolder) -> list[str]:
    """Takes the recorded files as they are now on record; the names of those that changed."""
    names = changed(folder)
    if names:
        manifest = manifest_of(folder) or begin(folder)
        for name in names:
            if (folder.path / name).is_file():
                manifest.digests[name] = [_digest(folder.path / name)]
            else:
                del manifest.digests[name]
        manifest.write(folder)
    return names


def _is_entry(name: str, digests: Any) -> bool:
    is_inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    return is_inside and isinstance(digests, list) and all(isinstance(e, str) for e in digests)


def _name(folder: RunFolder, path: Path) -> str:
    return path.relative_to(folder.path).as_posix()


def _digest(path: Path) -> str:
    """The SHA-256 of a regular file, read in pieces."""
    sha256 = hashlib.sha256()
    with files.opened(path) as file:
        while piece := file.read(PIECE_BYTES):
            sha256.update(piece)
    return sha256.hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _own_digest(plain: Mapping[str, Any]) -> str:
    """The SHA-256 of the values, whatever their order and the spaces between them."""
    return _sha256(json.dumps(plain, sort_keys=True).encode())


def _damaged(path: Path, problem: str) -> errors.DataError:
    return errors.DataError(f"{path}: missing or damaged ({problem}); restore it from a copy")

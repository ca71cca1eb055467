"""The files of one checkpoint: written whole or not at all, verified before they are loaded."""

import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.checkpoint import contents
from andiron.checkpoint.contents import MANIFEST, MODEL, STATE, Checkpoint, Tensors
from andiron.checkpoint.on_disk import manifest
from andiron.checkpoint.on_disk.manifest import Digested, Manifest
from andiron.disk import checksums, files
from andiron.serialization import safetensors_codec
from andiron.serialization.safetensors_codec import FROZEN

log = logging.getLogger("andiron")


class FrozenFile:
    """The file of the frozen weights: written once, then linked from the previous checkpoint.

    `entry` is its entry in the manifest.
    """

    def __init__(self, tensors: Tensors):
        self._tensors = tensors
        digested = Digested(self)
        deque(digested, maxlen=0)  # computes the entry
        self.entry = digested.entry

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return safetensors_codec.chunks(self._tensors)

    def link(self, path: Path) -> bool:
        """Links the file of the newest other checkpoint, if it has the same content, as `path`.

        Returns False, for the content to be written, also on a file system without hard links.
        """
        folders = path.parents[1].iterdir()
        named = ((contents.step_place(folder.name), folder) for folder in folders)
        places = {place: folder for place, folder in named if place}
        try:
            # the newest alone: an older one differs too, or was damaged
            source = next(folder / FROZEN for _, folder in sorted(places.items(), reverse=True))
            is_same = not source.is_symlink() and checksums.entry(source) == self.entry
            if is_same:
                os.link(source, path)
        except (StopIteration, OSError, ValueError):  # ValueError: not a file
            return False
        return is_same


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint as `folder` on a local disk, whole or not at all.

    Raises: OSError if the folder exists and is not empty, or cannot be written.
    """
    files.write_folder(folder, pieces(folder.name, checkpoint))


def pieces(
    name: str, checkpoint: Checkpoint, run: str | None = None
) -> dict[str, Digested | FrozenFile]:
    """The files of a checkpoint of the run with this identity, in writing order.

    The manifest comes last: its checksums are computed while the other files are read.
    """
    tensors = contents.tensors_by_file(checkpoint)
    content: dict[str, Digested | FrozenFile] = {}
    model = tensors[MODEL]
    if shared := {name: model[name] for name in model if name in checkpoint.frozen}:
        content[FROZEN] = frozen = FrozenFile(shared)
        trained = {name: model[name] for name in model if name not in shared}
        sha256 = {FROZEN: frozen.entry["sha256"]}
        content[MODEL] = Digested(safetensors_codec.chunks(trained, sha256))
        del tensors[MODEL]
    content |= {
        file: Digested(safetensors_codec.chunks(of_file)) for file, of_file in tensors.items()
    }
    content[STATE] = Digested([files.as_json(checkpoint.state)])
    content = checkpoint.joined(content) if checkpoint.joined else content
    updates = checkpoint.state["updates"]  # alone: a generator may outlive the memory of tensors

    def listed() -> Iterator[bytes]:
        entries = {file: digested.entry for file, digested in content.items()}
        yield Manifest(name, updates, entries, run).as_json()

    return {**content, MANIFEST: Digested(listed())}


def check(folder: Path, written: Mapping[str, Digested | FrozenFile]) -> None:
    """Reads a checkpoint back from the disk as a resume does.

    Raises: DataError as `load`, or if the folder does not hold these `written` pieces.
    """
    load(folder, past_cache=True)
    if checksums.entry(folder / MANIFEST) != written[MANIFEST].entry:
        raise errors.DataError(f"{folder}: is another checkpoint than was written")


def load(folder: Path, *, past_cache: bool = False) -> Checkpoint:
    """The checkpoint in `folder`, memory-mapped, once every file agrees with the manifest.

    Files that the manifest does not list are not read; a warning names them. `past_cache` is that
    of `manifest.verified`.
    Raises: DataError naming the file that is missing or damaged.
    """
    listed = manifest.verified(folder, past_cache=past_cache)
    state = manifest.read_json(folder / STATE)
    updates = state.get("updates") if isinstance(state, dict) else None
    if type(updates) is not int or updates != listed.updates:
        raise errors.DataError(
            f"{folder / STATE}: updates are {updates!r}, not {listed.updates}: damaged; use "
            "another checkpoint"
        )
    foreign = sorted({path.name for path in folder.iterdir()} - {MANIFEST, *listed.entries})
    if foreign:
        log.warning("%s: not part of the checkpoint, not read: %s", folder, ", ".join(foreign))
    return _mapped(folder, listed, state)


def _mapped(folder: Path, listed: Manifest, state: dict[str, Any]) -> Checkpoint:
    """A checkpoint whose files a process has verified."""
    tensors: dict[str, Tensors] = {}
    for name in (name for name in listed.entries if name.endswith(".safetensors")):
        own = safetensors_codec.load_tensors(folder / name, alone=True)
        tensors.setdefault(contents.undivided(name), {}).update(own)
    tensors[MODEL] |= (frozen := tensors.pop(FROZEN, {}))
    saved = replace(contents.from_files(tensors, state, folder), frozen=frozenset(frozen))
    is_whole = MODEL in listed.entries
    return saved if is_whole else replace(saved, reread=partial(_mapped, folder, listed))

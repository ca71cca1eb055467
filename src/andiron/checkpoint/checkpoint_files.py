"""One checkpoint on the disk: written whole or not at all, and loaded only as it was written."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor

from andiron import errors, files, serialization
from andiron.checkpoint import contents, manifest
from andiron.checkpoint.contents import MANIFEST, STATE, Checkpoint
from andiron.checkpoint.manifest import Digested, Manifest

log = logging.getLogger("andiron")


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint as `folder`, whole or not at all.

    Raises: OSError if the folder is there already, or cannot be written.
    """
    pieces: dict[str, files.Pieces] = {
        name: serialization.chunks(_as_written(tensors))
        for name, tensors in contents.tensors_by_file(checkpoint).items()
    }
    pieces[STATE] = [files.as_json(checkpoint.state)]
    digested = {name: Digested(of_file) for name, of_file in pieces.items()}

    def listed() -> Iterator[bytes]:
        entries = {name: of_file.entry for name, of_file in digested.items()}
        yield Manifest(folder.name, checkpoint.state["updates"], entries).as_json()

    files.write_folder(
        folder, {**digested, MANIFEST: listed()}
    )  # last, when all the others have been digested


def load(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`, every file checked against the manifest before a tensor is used; memory-mapped.

    Files that the manifest does not list are not read; a warning names them.
    Raises: DataError naming the file that is missing or damaged.
    """
    listed = manifest.verified(folder)
    state = manifest.read_json(folder / STATE)
    updates = state.get("updates") if isinstance(state, dict) else None
    if type(updates) is not int or updates != listed.updates:
        raise errors.DataError(
            f"{folder / STATE}: updates are {updates!r}, not {listed.updates}: damaged; use another checkpoint"
        )
    tensors = {
        name: serialization.load_tensors(folder / name) for name in listed.entries if name != STATE
    }
    foreign = sorted({path.name for path in folder.iterdir()} - {MANIFEST, *listed.entries})
    if foreign:
        log.warning("%s: no part of the checkpoint, and not read: %s", folder, ", ".join(foreign))
    return contents.from_files(tensors, state)


def _as_written(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the host and contiguous; copied only where they are not."""
    return {
        name: tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
        for name, tensor in tensors.items()
    }

"""Checkpoints: a folder each, written whole or not at all by a thread of its own, pruned by a strategy."""

import hashlib
import math
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from andiron import errors, files, records
from andiron.checkpoint.strategies import Saved, Strategy
from andiron.protocols import Values

MODEL, OPTIMIZER, AVERAGE = "model.safetensors", "optimizer.safetensors", "model-{}.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
SECONDS_BETWEEN_WRITES = 1.0  # what a kill can cost at most; writing every 20 ms epoch of a toy would double its time


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on: tensors by name, the plain values around them, and averages of the weights by name."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    averages: dict[str, dict[str, Tensor]] = field(default_factory=dict)


class FileCheckpointer:
    """Saves checkpoints as `folder`/step-<updates> and removes those that `strategy` does not keep.

    A checkpoint is copied at once and written by a thread of its own: straight away, or, when the last write is less
    than a second old, together with those that follow, less those the strategy has dropped by then. Only folders that
    this object wrote are ever removed.
    """

    def __init__(self, folder: Path, strategy: Strategy):
        self.folder = folder
        self.strategy = strategy
        self.saved: list[Saved] = []  # those to be kept
        self._copies: dict[int, Checkpoint] = {}  # of those not written yet
        self._on_disk: set[int] = set()
        self._last_write = -math.inf
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Takes a copy to be written; waits only if the write before it is still under way.

        Raises: whatever an earlier write failed with; what it should have written is tried again by the next.
        """
        self.saved.append(Saved(updates, values))
        kept = self.strategy(self.saved)
        self.saved = [saved for saved in self.saved if saved.updates in kept]
        if updates in kept:
            self._copies[updates] = _copied(checkpoint)
        self._copies = {saved: copy for saved, copy in self._copies.items() if saved in kept}
        if time.monotonic() - self._last_write >= SECONDS_BETWEEN_WRITES:
            self._start_writing()

    def wait(self) -> None:
        """Returns when everything saved so far is on the disk.

        Raises: whatever the writing failed with.
        """
        self._start_writing()
        self._finish_writing()

    def close(self) -> None:
        """Waits for the last write and ends the writing thread."""
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def path(self, updates: int) -> Path:
        """The folder of the checkpoint made after so many updates."""
        return self.folder / f"step-{updates}"

    def _start_writing(self) -> None:
        self._finish_writing()
        self._last_write = time.monotonic()
        self._writing = self._writer.submit(self._write, dict(self._copies), {saved.updates for saved in self.saved})

    def _finish_writing(self) -> None:
        writing, self._writing = self._writing, None
        try:
            if writing is not None:
                writing.result()
        finally:
            self._copies = {saved: copy for saved, copy in self._copies.items() if saved not in self._on_disk}

    def _write(self, copies: dict[int, Checkpoint], kept: set[int]) -> None:
        for updates, checkpoint in copies.items():
            write(self.path(updates), checkpoint)
            self._on_disk.add(updates)
        for updates in self._on_disk - kept:  # last: an old checkpoint goes only when the new ones are safe
            files.remove_folder(self.path(updates))
            self._on_disk.remove(updates)


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint as `folder`, whole or not at all.

    Raises: OSError if the folder is there already, or cannot be written.
    """
    contents = _serialised(checkpoint)
    files.write_folder(folder, {**contents, MANIFEST: files.as_json(manifest(contents))})


def load(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`, each of its files checked against the manifest first.

    Raises: DataError naming the file that is missing or damaged.
    """
    names = _verify(folder)
    tensors = {name: records.load_tensors(folder / name) for name in names if name != STATE}
    prefix, _, suffix = AVERAGE.partition("{}")
    averages = {
        name.removeprefix(prefix).removesuffix(suffix): average for name, average in tensors.items() if name.startswith(prefix)
    }
    return Checkpoint(tensors[MODEL], tensors[OPTIMIZER], files.read_json(folder / STATE), averages)


def _verify(folder: Path) -> list[str]:
    try:
        expected = files.read_json(folder / MANIFEST)
        wanted = {name: entry["sha256"] for name, entry in expected.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise errors.DataError(f"{folder / MANIFEST}: missing or damaged ({error}); use another checkpoint") from error
    names = list(dict.fromkeys([MODEL, OPTIMIZER, STATE, *wanted]))
    for name in names:
        path = folder / name
        if not path.is_file():
            raise errors.DataError(f"{path}: missing; use another checkpoint")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != wanted.get(name):
            raise errors.DataError(f"{path}: SHA-256 is {found}, not {wanted.get(name)}: damaged; use another checkpoint")
    return names


def manifest(contents: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Size in bytes and SHA-256 of every file of a checkpoint, by name."""
    return {name: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in contents.items()}


def _copied(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint as it is now: training changes the tensors in place while the copy waits to be written."""
    return Checkpoint(
        _copies(checkpoint.model),
        _copies(checkpoint.optimizer),
        checkpoint.state,
        {name: _copies(average) for name, average in checkpoint.averages.items()},
    )


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def _serialised(checkpoint: Checkpoint) -> dict[str, bytes]:
    tensors = {MODEL: checkpoint.model, OPTIMIZER: checkpoint.optimizer}
    tensors |= {AVERAGE.format(name): average for name, average in checkpoint.averages.items()}
    contents = {name: records.as_safetensors(named) for name, named in tensors.items()}
    return {**contents, STATE: files.as_json(checkpoint.state)}

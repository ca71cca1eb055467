"""Checkpoints: a folder each, written whole or not at all by a thread of its own, pruned by a strategy."""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from andiron import files, records
from andiron.checkpoint.strategies import Saved, Strategy
from andiron.protocols import Values

TENSOR_FILES = ("model", "optimizer")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on: tensors by name, and the plain values around them."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]


class FileCheckpointer:
    """Saves checkpoints as `folder`/step-<updates> and removes those that `strategy` does not keep.

    Only folders that this object wrote are ever removed.
    """

    def __init__(self, folder: Path, strategy: Strategy):
        self.folder = folder
        self.strategy = strategy
        self.saved: list[Saved] = []
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Copies the checkpoint and hands the copy to the writing thread; waits only for the save before it.

        Raises: whatever the save before it failed with.
        """
        self.wait()
        self.saved.append(Saved(updates, values))
        kept = self.strategy(self.saved)
        dropped = [saved.updates for saved in self.saved if saved.updates not in kept]
        self.saved = [saved for saved in self.saved if saved.updates in kept]
        if updates in dropped:
            dropped.remove(updates)
            self._pending = self._writer.submit(self._prune, dropped)
        else:
            self._pending = self._writer.submit(self._write, updates, _copied(checkpoint), dropped)

    def wait(self) -> None:
        """Returns when everything handed over so far is on the disk.

        Raises: whatever the writing failed with.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Waits for the last save and ends the writing thread."""
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def path(self, updates: int) -> Path:
        """The folder of the checkpoint made after so many updates."""
        return self.folder / f"step-{updates}"

    def _write(self, updates: int, checkpoint: Checkpoint, dropped: list[int]) -> None:
        with files.whole_folder(self.path(updates)) as folder:
            for name in TENSOR_FILES:
                records.save_tensors(folder / f"{name}.safetensors", getattr(checkpoint, name))
            files.write_json(folder / "state.json", checkpoint.state)
            files.write_json(folder / MANIFEST, manifest(folder))
        self._prune(dropped)  # last: an old checkpoint goes only when the new one is safe

    def _prune(self, dropped: list[int]) -> None:
        for updates in dropped:
            files.remove_folder(self.path(updates))


def load(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`.

    Raises: DataError if a file is missing or damaged.
    """
    tensors = {name: records.load_tensors(folder / f"{name}.safetensors") for name in TENSOR_FILES}
    return Checkpoint(**tensors, state=files.read_json(folder / "state.json"))


def manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Size in bytes and SHA-256 of every file in a folder, by name."""
    contents = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    return {name: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in contents.items()}


def _copied(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint as it is now: training changes the tensors in place while the copy is written."""
    copies = {
        name: {key: tensor.detach().to("cpu", copy=True) for key, tensor in getattr(checkpoint, name).items()}
        for name in TENSOR_FILES
    }
    return Checkpoint(**copies, state=checkpoint.state)

"""Checkpoints of `checkpoint.files=rank`: each process writes a file of whole tensors.

    step-40/model-00001-of-00002.safetensors      half of the weights, by rank 0
    step-40/model-00002-of-00002.safetensors      the other half, by rank 1
    step-40/model.safetensors.index.json          the file of each weight
    step-40/optimizer-00001-of-00002.safetensors  and 00002, the slots of the optimizer

This is the layout of large models in Hugging Face's libraries. A tensor is gathered in the process
that writes it, which copies it to its host. Another process than rank 0 writes its files beside
training into checkpoints/.step-40.<number><rank>.partial, and a list of them once they are on the
disk. Rank 0 links them into the checkpoint, and writes its manifest last.
"""

import errno
import logging
import os
import secrets
import shutil
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch.distributed.tensor import DTensor

from andiron import errors
from andiron.checkpoint import contents
from andiron.checkpoint.contents import MANIFEST, METRICS, MODEL, STATE, Checkpoint, Tensors
from andiron.checkpoint.on_disk import manifest
from andiron.checkpoint.on_disk.manifest import Digested
from andiron.checkpoint.store import Checkpointer, LocalStore, Store
from andiron.disk import checksums, files
from andiron.disk.files import write_through
from andiron.distributed import World
from andiron.plain.background import Background
from andiron.protocols import Values
from andiron.serialization import safetensors_codec
from andiron_lab.sharded.whole_norms import turns, wholes

INDEX = f"{MODEL}.index.json"
# rank 0 waits for files that do not grow, as on a network disk; the second after a failed exchange
SECONDS_WITHOUT_BYTES, SECONDS_AFTER_FAILURE = 60.0, 5.0
SECONDS_BETWEEN_LOOKS = 0.02
MOST_SECONDS, LEAST_BYTES_A_SECOND = 60.0, 1e6  # nobody waits longer for a file of this size
Owners = dict[str, int]  # by the name of a tensor, the rank of the process that writes it
log = logging.getLogger("andiron")


def part_name(file: str, rank: int, size: int) -> str:
    """The name of the part of a file that the process of this rank writes."""
    name = Path(file)
    return f"{name.stem}-{rank + 1:05}-of-{size:05}{name.suffix}"


class RankFiles:
    """Divides the tensors of the checkpoints in a store among the files of all processes.

    Raises: ConfigError for a store that is no folder.
    """

    def __init__(self, world: World, store: Store):
        if not isinstance(store, LocalStore):
            raise errors.ConfigError(
                f"checkpoint.files=rank: writes into a folder, and checkpoint.store is {store}; "
                "leave one of them out"
            )
        self._world, self._folder = world, store.folder
        self._number = 0  # of the checkpoint in this process

    def own(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint with the tensors that this process writes, whole, on its host.

        All processes call it. In rank 0 it also has the files that others write; in another process
        `folder` is where it writes.
        """
        self._number += 1
        name = f".step-{checkpoint.state['updates']}.{self._number % 2**16:04x}{{:04x}}.partial"
        folders = [self._folder / name.format(rank) for rank in range(self._world.size)]
        if self._world.rank:
            _remove(folders[self._world.rank])  # of a process that was killed before
            with suppress(OSError):  # tried again before it is written to
                folders[self._world.rank].mkdir(parents=True)
        tensors, owners = dict[str, Tensors](), dict[str, Owners]()
        for file, of_file in contents.tensors_by_file(checkpoint).items():
            if file != METRICS:
                tensors[file], owners[file] = self._divided(of_file)
        own = contents.from_files(tensors, checkpoint.state)
        if self._world.rank:
            return replace(own, folder=folders[self._world.rank])
        weights = checkpoint.model.values()
        index = {
            "metadata": {"total_size": sum(weight.nbytes for weight in weights)},
            "weight_map": {
                name: part_name(MODEL, rank, self._world.size)
                for name, rank in owners[MODEL].items()
            },
        }
        staged = [StagedFolder(folder) for folder in folders[1:]]
        joined = partial(_joined, self._world, staged, index)
        return replace(own, metrics=checkpoint.metrics, joined=joined)

    def _divided(self, tensors: Tensors) -> tuple[Tensors, Owners]:
        """The tensors of a file that this process writes, and who writes which.

        The largest first, so that files differ by at most the largest. Rank 0 writes tensors that
        every process has.
        """
        parts = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, DTensor)}
        names = sorted(parts, key=lambda name: -parts[name].numel())
        divided, owners = [parts[name] for name in names], dict.fromkeys(tensors, 0)
        for places in turns(divided, self._world.size):
            owners.update((names[place], rank) for rank, place in enumerate(places))
        own = {names[place]: whole.cpu() for place, whole in wholes(divided, self._world)}
        if self._world.rank == 0:
            own |= {name: tensor for name, tensor in tensors.items() if name not in parts}
        return own, owners


def _joined(
    world: World, staged: list["StagedFolder"], index: dict[str, Any], own: Mapping[str, Any]
) -> dict[str, Any]:
    """The files of a checkpoint: rank 0's `own`, the files of others, and the index of weights."""
    size = world.size
    divided = [name for name in own if name not in (STATE, METRICS)]
    joined = {part_name(name, 0, size): own[name] for name in divided}
    joined |= {name: own[name] for name in own if name not in divided}
    joined[INDEX] = Digested([files.as_indented_json(index)])
    for rank, folder in enumerate(staged, start=1):
        names = (part_name(name, rank, size) for name in divided)
        joined |= {name: StagedFile(world, folder.path, name) for name in names}
    return joined


class StagedFolder:
    """Where another process writes its files of a checkpoint; removed with the last reference."""

    def __init__(self, path: Path):
        self.path = path
        weakref.finalize(self, _remove, path)


@dataclass
class StagedFile:
    """A file of another process as a piece of a checkpoint, linked or copied."""

    world: World
    folder: Path
    name: str

    @property
    def entry(self) -> checksums.Entry:
        """The entry in the manifest of the checkpoint."""
        try:
            entries: dict[str, checksums.Entry] = manifest.read_json(self.folder / MANIFEST)
        except errors.DataError as error:
            raise OSError(errno.EIO, str(error)) from error
        return entries[self.name]

    def _wait(self) -> None:
        """Waits until all files of that process are on the disk.

        Raises: OSError if they do not grow for a while.
        """
        grown, size = time.monotonic(), -1
        while not (self.folder / MANIFEST).exists():
            now, before = self._bytes(), size
            grown, size = (time.monotonic(), now) if now != before else (grown, size)
            most = SECONDS_AFTER_FAILURE if self.world.has_failed else SECONDS_WITHOUT_BYTES
            if time.monotonic() - grown > most:
                why = "another process does not write its files, as ranks/ may explain"
                raise OSError(errno.ETIMEDOUT, why, str(self.folder))
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _bytes(self) -> int:
        with suppress(OSError):
            return sum(path.stat().st_size for path in self.folder.iterdir())
        return -1

    def link(self, path: Path) -> bool:
        """Links the file as `path`; returns False on a file system without hard links."""
        self._wait()
        with suppress(OSError):
            os.link(self.folder / self.name, path)
        return path.exists()

    def __iter__(self) -> Iterator[bytes]:
        with files.opened(self.folder / self.name) as file:
            while piece := file.read(manifest.PIECE_BYTES):
                yield piece


class RankCheckpointer:
    """The checkpointer of another process than rank 0: writes its files beside training.

    A part that cannot be written is kept, with a warning, until it is written or a newer one is
    saved. A part whose folder was removed is no longer needed.
    """

    def __init__(self, world: World, silent: Checkpointer):
        self._world = world
        self.store, self.strategy, self.cadence = silent.store, silent.strategy, silent.cadence
        self.saved = silent.saved
        self.sign, self.turn_back, self.adopt = silent.sign, silent.turn_back, silent.adopt
        self._part: Checkpoint | None = None  # not yet written
        self._had_folder = False  # the part, when it was saved or since
        self._deadline = 0.0
        self._writer = Background(self._write, 0.0, lambda: self._deadline)

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Takes the tensors to write; waits for a part that is still being written."""
        self._writer.check()
        self._writer.finish()
        self._had_folder = bool(checkpoint.folder and checkpoint.folder.exists())
        self._begin(checkpoint)

    def wait(self) -> bool:
        """Tries to write what was saved; returns whether it is written."""
        if self._part:
            self._begin(self._part)
        is_done = self._writer.finish()
        self._writer.check()
        return is_done and self._part is None

    def close(self) -> bool:
        """Waits as `wait` does, and ends the writing thread."""
        try:
            return self.wait()
        finally:
            self._writer.close()

    def _begin(self, part: Checkpoint) -> None:
        tables = contents.tensors_by_file(part).values()
        size = sum(tensor.nbytes for tensors in tables for tensor in tensors.values())
        self._deadline = time.monotonic() + MOST_SECONDS + size / LEAST_BYTES_A_SECOND
        self._part = part
        self._writer.ask()

    def _write(self) -> None:
        """Writes the part, and last the list of its files; runs in the thread."""
        part = self._part
        if part is None or part.folder is None:
            return
        folder, rank, entries = part.folder, self._world.rank, dict[str, checksums.Entry]()
        try:
            if not self._had_folder:
                folder.mkdir(parents=True)
                self._had_folder = True
            for file, tensors in contents.tensors_by_file(part).items():
                content = Digested(safetensors_codec.chunks(tensors))
                write_through(folder / (name := part_name(file, rank, self._world.size)), content)
                entries[name] = content.entry
            write_through(folder / STATE, [files.as_json(entries)])
            (folder / STATE).rename(folder / MANIFEST)
        except OSError as error:
            if folder.exists() or not self._had_folder:  # else it is no longer needed
                _empty(folder)
                log.warning(
                    "%s: the files of process %d COULD NOT BE WRITTEN (%s); they are written at "
                    "the end, unless with a newer checkpoint", folder, rank, files.reason(error),
                )  # fmt: skip
                return
        if self._part is part:
            self._part = None


def _remove(folder: Path) -> None:
    """Removes a folder in which a process may write: its next file then finds none."""
    aside = folder.with_name(f"{folder.name.rsplit('.', 2)[0]}.{secrets.token_hex(4)}.partial")
    with suppress(OSError):
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _empty(folder: Path) -> None:
    """Frees the memory of the disk for other files."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()

"""The protocols of checkpointing: the checkpointer, and the store of its checkpoints.

A store for other places, such as object storage, is a class with the methods of `Store`; a
configuration names it as `checkpoint.store`, and it is called with the folder of the run's
checkpoints.
"""

import errno
import os
import threading
from collections.abc import Iterable, Mapping
from functools import partialmethod
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from andiron import errors
from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.strategies import Saved, Strategy
from andiron.disk import files
from andiron.plain import readable
from andiron.plain.cadence import Cadence
from andiron.protocols import Values

KINDS = {"names": (list, tuple, set), "fetch": (Path,)}  # that these methods return


@runtime_checkable
class Store(Protocol):
    """Folders of files by name; a folder exists complete or not at all.

    Every method may raise OSError: the checkpointer then keeps its copy and tries again.
    """

    def names(self) -> list[str]:
        """The names of all folders, and of any other entries."""

    def write(self, name: str, pieces: Mapping[str, files.Pieces]) -> None:
        """Writes a folder with these files durably; the pieces arrive one after the other.

        Raises: OSError if a non-empty folder of that name exists.
        """

    def fetch(self, name: str) -> Path:
        """A local folder with the files of a stored one, bypassing write caches."""

    def rename(self, name: str, new_name: str) -> None:
        """Renames a folder."""

    def remove(self, name: str, file_names: Iterable[str]) -> list[str]:
        """Removes these files of a folder, and the folder once empty; returns remaining names."""

    def remove_leftovers(self) -> None:
        """Removes half-written and half-removed folders of killed processes."""


class NamedErrors:
    """The methods of a user's store; whatever one raises, or returns instead, is an OSError."""

    def __init__(self, store: Store):
        self._store = store

    def __str__(self) -> str:
        return str(self._store)

    def _call(self, method: str, *args: object) -> Any:
        try:
            result = getattr(self._store, method)(*args)
            texts = result if method == "names" else ()
            if not isinstance(result, KINDS.get(method, object)):
                raise TypeError(f"returned {readable.shortened(repr(result))}")
            "".join(texts)  # raises TypeError for other values
        except BaseException as error:
            is_main = threading.current_thread() is threading.main_thread()
            is_ctrl_c = is_main and isinstance(error, KeyboardInterrupt)
            if is_ctrl_c or isinstance(error, OSError) and error.strerror:
                raise
            raise OSError(errno.EIO, f"{method} raised {errors.reason(error)}") from error
        return result

    # not by __getattr__, where Python 3.12's isinstance looks for no method of a Protocol
    names, write = partialmethod(_call, "names"), partialmethod(_call, "write")
    fetch, rename = partialmethod(_call, "fetch"), partialmethod(_call, "rename")
    remove = partialmethod(_call, "remove")
    remove_leftovers = partialmethod(_call, "remove_leftovers")


@runtime_checkable
class Checkpointer(Protocol):
    """Saves the state of a learner."""

    cadence: Cadence
    store: Store
    strategy: Strategy

    @property
    def saved(self) -> list[Saved]:
        """The checkpoints to be kept, oldest first."""

    def sign(self, run: str) -> None:
        """Sets the identity of the run that checkpoints carry, unless they have one."""

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Copies the state; the caller may change it afterwards."""

    def wait(self) -> bool:
        """Waits until everything saved is written, or cannot be; returns whether it is."""

    def close(self) -> bool:
        """Waits, and ends the checkpointer; returns whether everything is written."""

    def turn_back(self, updates: int) -> None:
        """Sets checkpoints after `updates` aside, before the run continues from there."""

    def adopt(self, folder: Path, checkpoint: Checkpoint) -> None:
        """Takes over the checkpoints of the run that resumes from this one."""


class SilentCheckpointer:
    """The checkpointer of a process whose peer writes the run's checkpoints.

    It has the peer's cadence, so that both save at the same updates.
    """

    def __init__(
        self, store: Store, strategy: Strategy, cadence: Cadence, run: str | None = None
    ):
        self.store, self.strategy, self.cadence = store, strategy, cadence
        self.saved: list[Saved] = []

    def ignore(self, *args: object, **kwargs: object) -> None:
        """Does nothing."""

    sign = save = turn_back = adopt = ignore

    def wait(self) -> bool:
        """True: there is nothing to write."""
        return True

    close = wait


class LocalStore:
    """Checkpoints as folders in a folder of a local or network disk.

    A checkpoint is written to a temporary folder, synced to the disk, and renamed.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def names(self) -> list[str]:
        """The names of everything in the folder."""
        return [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []

    def write(self, name: str, pieces: Mapping[str, files.Pieces]) -> None:
        """Writes a folder with these files, durably and atomically."""
        files.write_folder(self.folder / name, pieces)

    def fetch(self, name: str) -> Path:
        """The folder itself."""
        return self.folder / name

    def rename(self, name: str, new_name: str) -> None:
        """Renames a folder."""
        (self.folder / name).rename(self.folder / new_name)

    def remove(self, name: str, file_names: Iterable[str]) -> list[str]:
        """Removes these files, and the folder once empty; returns the remaining names."""
        return files.remove_folder(self.folder / name, file_names)

    def remove_leftovers(self) -> None:
        """Removes half-written checkpoints, but only a checkpoint's files, and an old latest.json.
        """
        (self.folder / "latest.json").unlink(missing_ok=True)  # nobody would bring it up to date
        for path, name in files.partials(self.folder).items():
            if contents.step_place(name) and path.is_dir():
                files.remove_partial(path, filter(contents.is_own, os.listdir(path)))

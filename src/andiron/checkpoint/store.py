"""The borders of checkpointing: what saves checkpoints, and the store that keeps them.

A store for other places, such as object storage, is a class with the methods of `Store`; a
configuration names it as `checkpoint.store`, and it is called with the folder of the run's
checkpoints.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from andiron.checkpoint import contents
from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.strategies import Saved, Strategy
from andiron.disk import files
from andiron.plain.cadence import Cadence
from andiron.protocols import Values

LATEST = "latest.json"  # names the newest checkpoint, for people: nothing reads it


@runtime_checkable
class Store(Protocol):
    """Folders of files by name; a folder is there whole or not at all.

    Every method may raise OSError: the checkpointer then keeps its copy and tries again.
    """

    def names(self) -> list[str]:
        """The names of all folders, and of any other entries."""

    def write(self, name: str, pieces: Mapping[str, files.Pieces]) -> None:
        """Makes a folder with these files durably; they become ready one after the other.

        Raises: OSError if there is a folder of that name that is not empty.
        """

    def fetch(self, name: str) -> Path:
        """A local folder with the files of one, to be read past every cache of what was written."""

    def rename(self, name: str, new_name: str) -> None:
        """Gives a folder another name."""

    def remove(self, name: str, file_names: Iterable[str]) -> list[str]:
        """Removes these files of a folder, and the folder once empty; returns what is left."""

    def note_latest(self, name: str) -> None:
        """Notes for people which checkpoint is the newest."""

    def remove_leftovers(self) -> None:
        """Removes what killed processes left half written or half removed."""


@runtime_checkable
class Checkpointer(Protocol):
    """What a learner saves its state with."""

    cadence: Cadence
    store: Store
    strategy: Strategy

    @property
    def saved(self) -> list[Saved]:
        """The checkpoints to be kept, oldest first."""

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Takes a copy of the state, which the caller may change afterwards."""

    def wait(self) -> bool:
        """Returns once everything saved is written, or cannot be; whether it is."""

    def close(self) -> bool:
        """Waits, and ends the checkpointer; whether everything is written."""

    def turn_back(self, updates: int) -> None:
        """Sets checkpoints after `updates` aside, before the run continues from there."""

    def adopt(self, folder: Path, checkpoint: Checkpoint) -> None:
        """Takes over the checkpoints of the run that resumes from this one."""


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
        """Makes a folder with these files, durable and whole or not at all."""
        files.write_folder(self.folder / name, pieces)

    def fetch(self, name: str) -> Path:
        """The folder itself."""
        return self.folder / name

    def rename(self, name: str, new_name: str) -> None:
        """Renames a folder."""
        (self.folder / name).rename(self.folder / new_name)

    def remove(self, name: str, file_names: Iterable[str]) -> list[str]:
        """Removes these files, and the folder if it is empty then; else what is left."""
        return files.remove_folder(self.folder / name, file_names)

    def note_latest(self, name: str) -> None:
        """Writes latest.json."""
        place = contents.step_place(name)
        files.write_json(self.folder / LATEST, {"name": name, "updates": place and place[0]})

    def remove_leftovers(self) -> None:
        """Removes half written checkpoints, but no file that is not a checkpoint's."""
        for path, name in files.partials(self.folder).items():
            if name == LATEST:
                files.remove_partial(path, [])
            elif contents.step_place(name) and path.is_dir():
                own = [file.name for file in path.iterdir() if contents.is_own(file.name)]
                files.remove_partial(path, own)

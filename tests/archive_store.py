"""A checkpoint store of a user's own: each checkpoint is one archive in another folder.

Its checkpoints are unpacked to a new folder each time, as from object storage.
"""

SOURCE = '''
import os
import tarfile
import tempfile
from pathlib import Path


class Archives:
    def __init__(self, folder: Path, into: str):
        self.folder = Path(into).absolute() / folder.parent.name

    def __str__(self):
        return str(self.folder)

    def names(self):
        return [path.stem for path in self.folder.glob("*.tar")]

    def write(self, name, pieces):
        inside = Path(tempfile.mkdtemp(), name)
        inside.mkdir()
        for file, content in pieces.items():
            (inside / file).write_bytes(b"".join(content))
        self._pack(inside)

    def fetch(self, name):
        into = Path(tempfile.mkdtemp())
        if self._file(name).exists():
            with tarfile.open(self._file(name)) as archive:
                archive.extractall(into, filter="data")
        return into / name

    def rename(self, name, new_name):
        inside = self.fetch(name)
        self._pack(inside.rename(inside.with_name(new_name)))
        self._file(name).unlink()

    def remove(self, name, file_names):
        self._file(name).unlink()
        return []

    def remove_leftovers(self):
        for path in self.folder.glob("*.partial"):
            path.unlink()

    def _file(self, name):
        return self.folder / f"{name}.tar"

    def _pack(self, inside):
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f"{inside.name}.partial"
        with tarfile.open(partial, "w") as archive:
            archive.add(inside, inside.name)
        os.rename(partial, self._file(inside.name))
'''
NODE = "{_target_: archives.Archives, _partial_: true, into: kept}"
OPTION = f"checkpoint.store={NODE}"

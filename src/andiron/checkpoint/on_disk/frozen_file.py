"""The file of a checkpoint's frozen weights: written once, then linked from the previous one."""

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from andiron.checkpoint import contents
from andiron.checkpoint.contents import Tensors
from andiron.checkpoint.on_disk.manifest import Digested
from andiron.disk import checksums
from andiron.serialization import safetensors_codec
from andiron.serialization.safetensors_codec import FROZEN


class FrozenFile:
    """The pieces of the file; `entry` is its entry in the manifest."""

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

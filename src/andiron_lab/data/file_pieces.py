"""Pieces of files, read by position: neighbours take one read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from andiron import errors
from andiron.data.on_disk.stored import StoredFile

MOST_BETWEEN = 4096  # bytes that are read for nothing rather than in another call

Places = np.ndarray  # int64


@dataclass(frozen=True)
class Pieces:
    """Pieces of `content`, each from its begin on."""

    content: np.ndarray  # uint8
    begins: Places

    def rows(self, length: int) -> np.ndarray:
        """The pieces [number, length], all of one length."""
        number = len(self.begins)
        if len(self.content) == number * length and (np.diff(self.begins) == length).all():
            return self.content.reshape(number, length)
        return self.content[self.begins[:, None] + np.arange(length)]

    def arrays(self, lengths: Places) -> list[np.ndarray]:
        """The pieces, of these lengths, not copied."""
        ends = (self.begins + lengths).tolist()
        bounds = zip(self.begins.tolist(), ends, strict=True)
        return [self.content[begin:end] for begin, end in bounds]


def read(
    files: Sequence[StoredFile], numbers: Places, begins: Places, lengths: Places | int
) -> Pieces:
    """The pieces that begin at these places of the files of these numbers.

    Raises: DataError naming the file that is shorter now, cannot be read, or is damaged.
    """
    lengths = np.broadcast_to(lengths, begins.shape)
    sizes = np.array([file.size for file in files])
    if (is_wrong := (lengths < 0) | (begins < 0) | (begins + lengths > sizes[numbers])).any():
        raise errors.DataError(
            f"{files[int(numbers[is_wrong][0])].path}: is damaged: it names a place outside of it; "
            "restore it from a copy"
        )
    order = np.lexsort((begins, numbers))
    numbers, firsts = numbers[order], begins[order]
    ends = firsts + lengths[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(numbers) != 0) | (firsts[1:] - ends[:-1] > MOST_BETWEEN)
    spans = np.flatnonzero(is_new)
    # pieces of equal length end in the order in which they begin
    span_begins, span_ends = firsts[spans], np.maximum.reduceat(ends, spans) if len(spans) else ends
    offsets = np.concatenate([[0], np.cumsum(span_ends - span_begins)])
    content = np.empty(int(offsets[-1]), dtype=np.uint8)
    buffer, bounds = content.data, offsets.tolist()
    places = zip(numbers[spans].tolist(), span_begins.tolist(), bounds, bounds[1:], strict=False)
    for file, place, begin, end in places:
        files[file].read_into(buffer[begin:end], place)
    span_of = np.cumsum(is_new) - 1
    within = np.empty(len(order), dtype=np.int64)
    within[order] = firsts - span_begins[span_of] + offsets[span_of]
    return Pieces(content, within)

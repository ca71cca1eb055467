"""Windows of tokens in shards: over all documents in a row, or each within its document."""

import bisect
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Indices, RawBatch
from andiron.data.on_disk.stored import StoredArray
from andiron.outputs import IGNORED
from andiron_lab.data.shard_files import Shard, Shards

DOCUMENTS = 1024  # in a block: of each block, memory holds one number

Rows = Int[Tensor, "number length"]


@dataclass(frozen=True)
class Window:
    """The place of a window: `length` tokens from `begin` on, counted over all shards."""

    begin: int
    length: int


class TokenReader:
    """The tokens of all shards, one after the other, read by place."""

    def __init__(self, shards: Shards):
        self.shards = [shard for shard in shards.shards if len(shard.tokens)]
        self.vocabulary_size = shards.vocabulary_size
        lengths = [len(shard.tokens) for shard in self.shards]
        self.begins = [0, *itertools.accumulate(lengths)]

    def __len__(self) -> int:
        return self.begins[-1]

    def read(self, windows: Sequence[Window], length: int, filler: int) -> Rows:
        """The tokens of each window; a shorter one than `length` ends with `filler`.

        Raises: DataError for a token outside the vocabulary, or a file that has changed.
        """
        content = torch.zeros(len(windows) * length, dtype=self.shards[0].tokens.dtype)
        buffer, row_bytes = content.view(torch.uint8).numpy().data, length * content.itemsize
        for number, window in enumerate(windows):
            begin = number * row_bytes
            self._read_into(buffer[begin : begin + window.length * content.itemsize], window)
        rows = content.long().view(-1, length)
        for row, window in zip(rows, windows, strict=True):
            if window.length < length:
                row[window.length :] = filler
        largest = int(rows.max()) if len(rows) else 0
        if self.vocabulary_size is not None and largest >= self.vocabulary_size:
            raise errors.DataError(
                f"{self.shards[0].tokens.file.path.parent}: has token {largest}, where the "
                f"vocabulary has {self.vocabulary_size}; give the tokenizer that wrote it, or "
                "another data.vocabulary_size or data.dtype"
            )
        return rows

    def _read_into(self, buffer: memoryview, window: Window) -> None:
        place, end = window.begin, window.begin + window.length
        while place < end:
            number = _last_at_most(self.begins, place)
            tokens, until = self.shards[number].tokens, min(end, self.begins[number + 1])
            offset = (place - self.begins[number]) * tokens.dtype.itemsize
            length = (until - place) * tokens.dtype.itemsize
            tokens.file.read_into(buffer[:length], tokens.offset + offset)
            place, buffer = until, buffer[length:]


@dataclass(frozen=True)
class PackedWindows:
    """Windows of `length` tokens `stride` apart in [begin, end), whatever documents they cross."""

    begin: int
    end: int
    length: int
    stride: int

    def __len__(self) -> int:
        return len(self._starts())

    def at(self, index: int) -> Window:
        """The window of sample `index`."""
        return Window(self._starts()[index], self.length)

    def _starts(self) -> range:
        return range(self.begin, self.end - self.length + 1, self.stride)


@dataclass(frozen=True)
class Block:
    """Up to 1,024 documents of a shard, from number `first` on, which begin at token `begin`."""

    shard: Shard
    first: int
    begin: int  # in the shard
    place: int  # over all shards


class DocumentIndex:
    """The windows of all documents; memory holds a number for each block of 1,024.

    A document of n tokens has windows `stride` apart until every token after its first is a target:
    1 + ceil((n - length) / stride); a document of a single token has none. The ends of a block's
    documents are read again when one of its samples is asked for.
    """

    def __init__(self, reader: TokenReader, length: int, stride: int):
        self.length, self.stride, self.num_tokens = length, stride, len(reader)
        self.blocks, sums = list[Block](), [0]
        for shard, place in zip(reader.shards, reader.begins, strict=False):
            begin = 0
            for first in range(0, len(_ends(shard)), DOCUMENTS):
                block = Block(shard, first, begin, place + begin)
                ends, windows = _read_block(block, length, stride)
                self.blocks.append(block)
                sums.append(sums[-1] + int(windows[-1]))
                begin = int(ends[-1])
        self.sums = sums

    def window(self, number: int) -> Window:
        """The window of this number, over all documents."""
        place = _last_at_most(self.sums, number)
        block = self.blocks[place]
        ends, windows = _read_block(block, self.length, self.stride)
        inside = number - self.sums[place]
        document = int(torch.searchsorted(windows, inside, right=True)) - 1
        skipped = (inside - int(windows[document])) * self.stride
        begin = int(ends[document]) + skipped
        length = min(self.length, int(ends[document + 1]) - begin)
        return Window(block.place - block.begin + begin, length)

    def windows_before(self, place: int) -> int:
        """The number of windows of the documents that begin before a place."""
        if place >= self.num_tokens:
            return self.sums[-1]
        number = _last_at_most([block.place for block in self.blocks], place)
        block = self.blocks[number]
        ends, windows = _read_block(block, self.length, self.stride)
        inside = place - block.place + block.begin
        return self.sums[number] + int(windows[int(torch.searchsorted(ends[:-1], inside))])

    def begin_of_document(self, place: int) -> int:
        """The place where the document begins that has the token at `place`."""
        if place >= self.num_tokens:
            return self.num_tokens
        block = self.blocks[_last_at_most([block.place for block in self.blocks], place)]
        ends, _ = _read_block(block, self.length, self.stride)
        inside = place - block.place + block.begin
        before = int(torch.searchsorted(ends, inside, right=True)) - 1
        return block.place - block.begin + int(ends[before])


@dataclass(frozen=True)
class DocumentWindows:
    """The windows of the documents in [begin, end), places where documents begin or all end."""

    index: DocumentIndex
    begin: int
    end: int

    def __len__(self) -> int:
        return self.last - self.first

    def at(self, number: int) -> Window:
        """The window of a sample."""
        return self.index.window(self.first + number)

    @functools.cached_property
    def first(self) -> int:
        """The number of windows before the part."""
        return self.index.windows_before(self.begin)

    @functools.cached_property
    def last(self) -> int:
        """The number of windows up to its end."""
        return self.index.windows_before(self.end)


class TokenWindows:
    """Samples of windows: inputs are their tokens but the last, targets the same one token later.

    Both are int64 [batch, context_length]. A window that is shorter, at the end of its document, is
    filled with `filler`, and its further targets are IGNORED.
    """

    def __init__(
        self, reader: TokenReader, windows: PackedWindows | DocumentWindows, length: int,
        filler: int,
    ):  # fmt: skip
        self.reader, self.windows = reader, windows
        self.length, self.filler = length, filler

    def __len__(self) -> int:
        return len(self.windows)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in this order. Raises: IndexError; DataError as the reader."""
        listed = torch.as_tensor(indices).tolist()
        for index in listed:
            if not 0 <= index < len(self):
                raise IndexError(f"sample {index}: there are {len(self)}, counted from 0")
        windows = [self.windows.at(index) for index in listed]
        rows = self.reader.read(windows, self.length, self.filler)
        targets = rows[:, 1:].clone()
        for row, window in zip(targets, windows, strict=True):
            if window.length < self.length:
                row[window.length - 1 :] = IGNORED
        return RawBatch(rows[:, :-1], targets)

    def sample_name(self, index: int) -> str:
        """The place of its first token, counted from 0 over all shards."""
        return f"token {self.windows.at(index).begin}"


def _ends(shard: Shard) -> StoredArray:
    if shard.ends is None:
        raise errors.DataError(
            f"{shard.tokens.file.path}: its documents are not known, as in a plain file of tokens; "
            "use data.documents=packed, or write it with andiron tokenize"
        )
    return shard.ends


@functools.lru_cache(maxsize=256)
def _read_block(block: Block, length: int, stride: int) -> tuple[Tensor, Tensor]:
    """The ends of a block's documents after its begin; their windows, added up from 0."""
    array = _ends(block.shard)
    read = array.read(range(block.first, min(block.first + DOCUMENTS, len(array))))
    ends = torch.cat([torch.tensor([block.begin]), read])
    tokens = ends.diff()
    more = (tokens - length + stride - 1).clamp(min=0) // stride
    windows = torch.where(tokens > 1, 1 + more, 0)
    return ends, torch.cat([torch.zeros(1, dtype=torch.int64), windows.cumsum(0)])


def _last_at_most(ascending: Sequence[int], value: int) -> int:
    """The last place in an ascending list with at most this value."""
    return bisect.bisect_right(ascending, value) - 1

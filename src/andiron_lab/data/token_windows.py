"""Windows of tokens in shards: over all documents in a row, or each within its document."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Indices, RawBatch
from andiron.data.on_disk.stored import StoredArray
from andiron.outputs import IGNORED
from andiron_lab.data.shard_files import Shard, Shards, Window, last_at_most

DOCUMENTS = 1024  # in a block: of each block, memory holds one number


@dataclass(frozen=True)
class PackedWindows:
    """Windows of `length` tokens `stride` apart, whatever documents they cross.

    The number of a window is the place of its first token.
    """

    length: int
    stride: int

    def begin_of(self, place: int) -> int:
        """Where a part may begin that should have the token at `place`."""
        return place

    def numbers(self, begin: int, end: int) -> range:
        """The numbers of the windows of the tokens in [begin, end)."""
        return range(begin, end - self.length + 1, self.stride)

    def window(self, number: int) -> Window:
        """The window of this number."""
        return Window(number, self.length)


@dataclass(frozen=True)
class Block:
    """Up to 1,024 documents of a shard, from number `first` on, which begin at token `begin`."""

    shard: Shard
    shard_begin: int  # over all shards
    first: int
    begin: int  # in the shard


class DocumentWindows:
    """Windows that stay in their documents, numbered over all of them.

    A document of n tokens has windows `stride` apart until every token after its first is a target:
    1 + ceil((n - length) / stride); a document of a single token has none. Memory holds a number
    for each block of documents, whose ends are read again when one of its samples is asked for.
    """

    def __init__(self, shards: Shards, length: int, stride: int):
        self.length, self.stride, self.num_tokens = length, stride, len(shards)
        self.blocks, self.places, self.sums = list[Block](), list[int](), [0]
        for shard, shard_begin in zip(shards.shards, shards.begins, strict=False):
            begin = 0
            for first in range(0, len(_ends(shard)), DOCUMENTS):
                self.blocks.append(Block(shard, shard_begin, first, begin))
                self.places.append(shard_begin + begin)
                begins, windows = _read_block(self.blocks[-1], length, stride)
                self.sums.append(self.sums[-1] + int(windows[-1]))
                begin = int(begins[-1])

    def begin_of(self, place: int) -> int:
        """Where the document begins that has the token at `place`."""
        return self._document_at(place)[0]

    def numbers(self, begin: int, end: int) -> range:
        """The numbers of the windows of the documents in [begin, end)."""
        return range(self._document_at(begin)[1], self._document_at(end)[1])

    def window(self, number: int) -> Window:
        """The window of this number."""
        place = last_at_most(self.sums, number)
        block = self.blocks[place]
        begins, windows = _read_block(block, self.length, self.stride)
        inside = number - self.sums[place]
        document = int(torch.searchsorted(windows, inside, right=True)) - 1
        skipped = (inside - int(windows[document])) * self.stride
        begin, end = int(begins[document]) + skipped, int(begins[document + 1])
        return Window(block.shard_begin + begin, min(self.length, end - begin))

    def _document_at(self, place: int) -> tuple[int, int]:
        """Where the document of a token begins, and the number of its first window."""
        if place >= self.num_tokens:
            return self.num_tokens, self.sums[-1]
        number = last_at_most(self.places, place)
        block = self.blocks[number]
        begins, windows = _read_block(block, self.length, self.stride)
        inside = place - block.shard_begin
        document = int(torch.searchsorted(begins, inside, right=True)) - 1
        return block.shard_begin + int(begins[document]), self.sums[number] + int(windows[document])


class TokenWindows:
    """The windows in [begin, end) as samples: inputs are tokens, targets those one token later.

    Both are int64 [batch, context_length]. A window that is shorter, at the end of its document, is
    filled with the token of such an end, and its further targets are IGNORED.
    """

    def __init__(
        self, shards: Shards, windows: PackedWindows | DocumentWindows, begin: int, end: int
    ):
        self.shards, self.windows, self.begin, self.end = shards, windows, begin, end
        self.numbers = windows.numbers(begin, end)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in order. Raises: IndexError; DataError as `Shards.read`."""
        chosen = [self.numbers[index] for index in torch.as_tensor(indices).tolist()]
        windows, length = [*map(self.windows.window, chosen)], self.windows.length
        rows = self.shards.read(windows, length)
        targets = rows[:, 1:].clone()
        for row, window in enumerate(windows):
            if window.length < length:
                rows[row, window.length :] = self.shards.end or 0
                targets[row, window.length - 1 :] = IGNORED
        return RawBatch(rows[:, :-1], targets)

    def between(self, begin: int, end: int) -> "TokenWindows":
        """The samples of the windows in [begin, end)."""
        return TokenWindows(self.shards, self.windows, begin, end)

    def sample_name(self, index: int) -> str:
        """The place of its first token, counted from 0 over all shards."""
        return f"token {self.windows.window(self.numbers[index]).begin}"


def _ends(shard: Shard) -> StoredArray:
    if shard.ends is None:
        raise errors.DataError(
            f"{shard.tokens.file.path}: its documents are not known, as in a plain file of tokens; "
            "use data.documents=packed, or write it with andiron tokenize"
        )
    return shard.ends


@functools.lru_cache(maxsize=256)
def _read_block(block: Block, length: int, stride: int) -> tuple[Tensor, Tensor]:
    """Where the documents of a block begin, and the next block; their windows, added up from 0."""
    array = _ends(block.shard)
    ends = array.read(range(block.first, min(block.first + DOCUMENTS, len(array))))
    begins = torch.cat([torch.tensor([block.begin]), ends])
    tokens = begins.diff()
    more = (tokens - length + stride - 1).clamp(min=0) // stride
    windows = torch.where(tokens > 1, 1 + more, 0)
    return begins, torch.cat([torch.zeros(1, dtype=torch.int64), windows.cumsum(0)])

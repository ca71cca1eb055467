"""Folders of token shards, as `andiron tokenize` writes them, and plain files of tokens.

A shard is a file of tokens, little-endian uint16 or uint32 without a header: the layout of
`numpy.tofile` and of nanoGPT's `train.bin`, which any program maps by one line. Beside it
stand the ends of its documents, as int64. The manifest, written last, has their numbers and
checksums, and the tokenizer's.
"""

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Int
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor

from andiron import errors
from andiron.data.on_disk.stored import StoredArray, StoredFile
from andiron.data.splitting import fingerprint
from andiron.disk import files
from andiron_lab.data import large_file, tokenizer_texts

MANIFEST, TOKENIZER = "manifest.json", "tokenizer.json"
DTYPES = {"uint16": torch.uint16, "uint32": torch.uint32}
DType = Literal["uint16", "uint32"]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[0-9]{5}(\.ends)?\.bin$")]
Number = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class ShardEntry:
    """A shard on record: its file, and that of the ends of its documents."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    tokens: FileName
    num_tokens: Number
    tokens_sha256: Sha256
    ends: FileName
    num_documents: Number
    ends_sha256: Sha256


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json; `end` is the token after each document, if there is one."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal["andiron token shards 1"]
    dtype: DType
    vocabulary_size: Annotated[int, Field(ge=1)]
    end: int | None
    tokenizer: str  # as it was named
    tokenizer_sha256: Sha256
    shards: list[ShardEntry]
    sources: list[dict[str, Any]]


@dataclass(frozen=True)
class Shard:
    """The tokens of a shard, and the ends of its documents, if they are known."""

    tokens: StoredArray
    ends: StoredArray | None


@dataclass(frozen=True)
class Window:
    """The place of a window: `length` tokens from `begin` on, counted over all shards."""

    begin: int
    length: int


@dataclass(frozen=True)
class Shards:
    """Shards in their order, whose tokens are read by place, and what is known of them."""

    shards: Sequence[Shard]
    fingerprint: str
    vocabulary_size: int | None = None
    end: int | None = None
    tokenizer: Mapping[str, str] | None = None  # its `tokenizer_texts.record_of`

    @cached_property
    def begins(self) -> list[int]:
        """The place of the first token of each shard, and the number of all tokens."""
        return [0, *itertools.accumulate(len(shard.tokens) for shard in self.shards)]

    def __len__(self) -> int:
        return self.begins[-1]

    def read(self, windows: Sequence[Window], length: int) -> Int[Tensor, "number length"]:
        """The tokens of each window; a shorter one than `length` ends with zeros.

        Raises: DataError for a token outside the vocabulary, or a file that has changed.
        """
        content = torch.zeros(len(windows) * length, dtype=self.shards[0].tokens.dtype)
        buffer, row_bytes = content.view(torch.uint8).numpy().data, length * content.itemsize
        for number, window in enumerate(windows):
            begin = number * row_bytes
            self._read_into(buffer[begin : begin + window.length * content.itemsize], window)
        rows = content.long().view(-1, length)
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
            number = last_at_most(self.begins, place)
            tokens, until = self.shards[number].tokens, min(end, self.begins[number + 1])
            offset = (place - self.begins[number]) * tokens.dtype.itemsize
            length = (until - place) * tokens.dtype.itemsize
            tokens.file.read_into(buffer[:length], tokens.offset + offset)
            place, buffer = until, buffer[length:]


def of_path(path: Path, dtype: str = "uint16") -> Shards:
    """The shards in a folder of `andiron tokenize`, or a plain file of tokens of `dtype`.

    Raises: DataError if a file is missing, malformed, or of another size than on record.
    """
    if not path.is_dir():
        return _of_file(path, dtype)
    if not (path / MANIFEST).exists():
        raise errors.DataError(
            f"{path}: has no {MANIFEST}, so it is no whole folder of shards; write it with andiron "
            "tokenize, or name a plain file of tokens"
        )
    manifest, checksum = read_manifest(path)
    dtype, shards = manifest.dtype, list[Shard]()
    for entry in manifest.shards:
        tokens = _array(path / entry.tokens, DTYPES[dtype], entry.num_tokens)
        shards.append(Shard(tokens, _array(path / entry.ends, torch.int64, entry.num_documents)))
    tokenizer = tokenizer_texts.record_of(path / TOKENIZER, manifest.tokenizer_sha256)
    return Shards(shards, checksum, manifest.vocabulary_size, manifest.end, tokenizer)


def read_manifest(folder: Path) -> tuple[Manifest, str]:
    """The manifest of a folder of shards, and its SHA-256. Raises: DataError."""
    path = folder / MANIFEST
    try:
        content = files.read_bytes(path)
        manifest = TypeAdapter(Manifest).validate_python(files.parsed_json(content))
    except (OSError, ValueError, ValidationError) as error:
        raise errors.DataError(
            f"{path}: is malformed ({errors.one_line(error)[:200]}); write the folder again with "
            "andiron tokenize"
        ) from error
    return manifest, fingerprint.of_texts([content.decode()])


def check_checksums(folder: Path) -> int:
    """The number of files in a folder of shards, all read and equal to the manifest.

    Raises: DataError naming the first file that is missing or another.
    """
    manifest, _ = read_manifest(folder)
    expected = {TOKENIZER: manifest.tokenizer_sha256}
    for entry in manifest.shards:
        expected |= {entry.tokens: entry.tokens_sha256, entry.ends: entry.ends_sha256}
    for name, sha256 in expected.items():
        if fingerprint.of_file(folder / name) != sha256:
            raise errors.DataError(
                f"{folder / name}: has another content than {MANIFEST} records; restore it, or "
                "write the folder again"
            )
    return len(expected)


def _array(path: Path, dtype: torch.dtype, number: int) -> StoredArray:
    file = StoredFile(path)
    if file.size != number * dtype.itemsize:
        raise errors.DataError(
            f"{path}: has {file.size} bytes, where {MANIFEST} records {number * dtype.itemsize}; "
            "restore it, or write the folder again with andiron tokenize"
        )
    return StoredArray(file, path.name, 0, dtype, (number,))


def _of_file(path: Path, dtype: str) -> Shards:
    """One file of tokens, as nanoGPT writes it; its documents are not known."""
    file, kind = StoredFile(path), DTYPES[dtype]
    number, rest = divmod(file.size, kind.itemsize)
    if rest or not number:
        raise errors.DataError(
            f"{path}: has {file.size} bytes, which are no tokens of {dtype}; name a file of tokens "
            "without a header, or another data.dtype"
        )
    tokens = StoredArray(file, path.name, 0, kind, (number,))
    return Shards([Shard(tokens, None)], large_file.checksum_of([path])[0])


def last_at_most(ascending: Sequence[int], value: int) -> int:
    """The last place in an ascending list with at most this value."""
    return bisect.bisect_right(ascending, value) - 1

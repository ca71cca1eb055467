"""A text as numbers, one for each character: written once to a file of their own, and read from there."""

import codecs
import json
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import named_arrays
from andiron.data.on_disk.stored import StoredArray

CHUNK_BYTES = 2**20  # of text decoded at a time
MOST_IN_A_BYTE, MOST_IN_TWO = 2**8, 2**16
log = logging.getLogger("andiron")


class Characters(NamedTuple):
    """Tokens, in a file or in memory, each the place of its character in the vocabulary."""

    tokens: StoredArray | Tensor
    vocabulary: list[str]


def tokens(path: Path, *, sha256: str, cache: Path | None) -> Characters:
    """The characters of the UTF-8 file at `path` as tokens; the vocabulary is sorted.

    They are kept in a file named by the content's SHA-256, in the folder `cache` or beside the text, and made again when
    it is missing or damaged. Where none can be written beside the text, they are held in memory, and a warning says so.
    Raises: DataError if the text is not UTF-8, or `cache` is given and cannot be written.
    """
    kept = (cache or path.absolute().parent) / f"{path.name}.{sha256[:16]}.characters.safetensors"
    try:
        return _read(kept)
    except (errors.DataError, KeyError):
        pass  # made below
    vocabulary, number = _survey(path)
    try:
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
        _write(kept, path, vocabulary, number)
    except OSError as error:
        if cache is not None:
            raise errors.DataError(
                f"data.cache={cache}: cannot be written ({error}); name a folder that can"
            ) from error
        log.warning(
            "%s: cannot be written (%s): tokens are held in memory; data.cache names another folder",
            kept,
            error,
        )
        return Characters(torch.cat(list(_encoded(path, vocabulary))), vocabulary)
    return _read(kept)


def _read(path: Path) -> Characters:
    """What was written; no file, or one that is not whole, is an error."""
    arrays = named_arrays.stored(path)
    codepoints = arrays["vocabulary"]
    vocabulary = [chr(code) for code in codepoints.read(torch.arange(len(codepoints))).tolist()]
    return Characters(arrays["tokens"], vocabulary)


def _survey(path: Path) -> tuple[list[str], int]:
    """Which characters there are, sorted, and how many of them in all."""
    seen: set[str] = set()
    number = 0
    for text in _decoded(path):
        seen.update(text)
        number += len(text)
    if len(seen) > MOST_IN_TWO:
        raise errors.DataError(
            f"{path}: has {len(seen)} different characters, more than {MOST_IN_TWO}; use data.level=bytes"
        )
    return sorted(seen), number


def _decoded(path: Path) -> Iterator[str]:
    """The text, some at a time, exactly as it is: no line ending is changed."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    position = 0
    try:
        with path.open("rb") as file:
            while True:
                waiting = len(
                    decoder.getstate()[0]
                )  # bytes of a character that the last chunk cut through
                content = file.read(CHUNK_BYTES)
                yield decoder.decode(content, final=not content)
                if not content:
                    return
                position += len(content)
    except UnicodeDecodeError as error:
        raise errors.DataError(
            f"{path}: is not UTF-8 at byte offset {position - waiting + error.start} ({error.reason}); convert it, or use "
            "data.level=bytes"
        ) from error


def _encoded(path: Path, vocabulary: list[str]) -> Iterator[Tensor]:
    codes = torch.tensor([ord(character) for character in vocabulary], dtype=torch.int32)
    for text in _decoded(path):
        if text:
            found = torch.frombuffer(bytearray(text.encode("utf-32-le")), dtype=torch.int32)
            yield torch.searchsorted(codes, found).to(_dtype(vocabulary))


def _dtype(vocabulary: list[str]) -> torch.dtype:
    return torch.uint8 if len(vocabulary) <= MOST_IN_A_BYTE else torch.uint16


def _write(kept: Path, path: Path, vocabulary: list[str], number: int) -> None:
    """Writes tokens and vocabulary as a safetensors file, some at a time, whole or not at all."""
    size, name = (
        _dtype(vocabulary).itemsize * number,
        "U8" if _dtype(vocabulary) == torch.uint8 else "U16",
    )
    codes = torch.tensor([ord(character) for character in vocabulary], dtype=torch.int32)
    header = json.dumps(  # the vocabulary first: its four-byte numbers stay aligned
        {
            "vocabulary": {
                "dtype": "I32",
                "shape": [len(codes)],
                "data_offsets": [0, 4 * len(codes)],
            },
            "tokens": {
                "dtype": name,
                "shape": [number],
                "data_offsets": [4 * len(codes), 4 * len(codes) + size],
            },
        }
    ).encode()
    header += b" " * (-len(header) % 8)
    partial = kept.with_name(f".{kept.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(len(header).to_bytes(8, "little") + header + codes.numpy().tobytes())
            for part in _encoded(path, vocabulary):
                file.write(part.numpy().data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(kept)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise

"""The characters of a text as tokens, written once to a separate file and read from there."""

import io
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import stored
from andiron.disk import files, guarded_folders
from andiron.serialization import safetensors_codec

CHUNK_CHARACTERS = 2**20  # of text decoded at a time
MOST_IN_A_BYTE, MOST_IN_TWO = 2**8, 2**16
# tokens, in a file or in memory, each the index of a character in the vocabulary
Characters = tuple[stored.StoredArray | Tensor, list[str]]
log = logging.getLogger("andiron")


def tokens(path: Path, *, sha256: str, cache: Path | None) -> Characters:
    """The characters of the UTF-8 file at `path` as tokens; the vocabulary is sorted.

    They are stored in a file named after the content's SHA-256, in the folder `cache` or beside the
    text, which is rewritten if missing or damaged. If it cannot be written beside the text, tokens
    are held in memory, with a warning.
    Raises: DataError if the text is not UTF-8, or `cache` is given and cannot be written.
    """
    folder = cache or path.absolute().parent
    stored_tokens = folder / f"{path.name}.{sha256[:16]}.characters.safetensors"
    try:
        return _read(stored_tokens)
    except (errors.DataError, KeyError):
        pass  # they are written below
    codes, number = _survey(path)
    # the vocabulary first: its four-byte numbers stay aligned
    shapes = {"vocabulary": (codes.dtype, codes.shape), "tokens": (_dtype(codes), [number])}
    tensors = itertools.chain([codes], _encoded(path, codes))
    try:
        guarded_folders.check_writing(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files.write_pieces(stored_tokens, safetensors_codec.pieces(shapes, tensors))
    except OSError as error:
        if cache is not None:
            raise errors.DataError(
                f"data.cache={cache}: cannot be written ({error}); name another folder"
            ) from error
        log.warning(
            "%s: cannot be written (%s): tokens are held in memory; set data.cache to another "
            "folder",
            stored_tokens,
            error,
        )
        return torch.cat([*_encoded(path, codes)]), _vocabulary(codes)
    return _read(stored_tokens)


def decoded(path: Path) -> Iterator[str]:
    """The text in chunks, without byte order marks; line endings are unchanged.

    Raises: DataError if it is not UTF-8.
    """
    with path.open("rb") as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            # without the mark of each file that was joined
            yield from iter(lambda: text.read(CHUNK_CHARACTERS).replace("\ufeff", ""), "")
        except UnicodeDecodeError as error:
            start = file.tell() - len(error.object)  # bytes before those decoded last
            raise errors.DataError(
                f"{path}: is not UTF-8 at byte offset {start + error.start} "
                f"({error.reason}); convert it, or use data.level=bytes"
            ) from error


def _read(path: Path) -> Characters:
    arrays = stored.arrays_in(path)
    codes = arrays["vocabulary"]
    return arrays["tokens"], _vocabulary(codes.read(range(len(codes))))


def _vocabulary(codes: Tensor) -> list[str]:
    return [chr(code) for code in codes.tolist()]


def _survey(path: Path) -> tuple[Tensor, int]:
    """The sorted code points of all different characters, and the number of characters."""
    seen: set[str] = set()
    number = 0
    for text in decoded(path):
        seen.update(text)
        number += len(text)
    if len(seen) > MOST_IN_TWO:
        raise errors.DataError(
            f"{path}: has {len(seen)} different characters, more than {MOST_IN_TWO}; "
            "use data.level=bytes"
        )
    return torch.tensor(sorted(map(ord, seen)), dtype=torch.int32), number


def _encoded(path: Path, codes: Tensor) -> Iterator[Tensor]:
    for text in decoded(path):
        text_codes = torch.frombuffer(bytearray(text.encode("utf-32-le")), dtype=torch.int32)
        yield torch.searchsorted(codes, text_codes).to(_dtype(codes))


def _dtype(codes: Tensor) -> torch.dtype:
    """The narrowest type of a token."""
    return torch.uint8 if len(codes) <= MOST_IN_A_BYTE else torch.uint16

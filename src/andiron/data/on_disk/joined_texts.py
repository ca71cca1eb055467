"""The texts of a folder, joined once into a separate file."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from andiron import errors
from andiron.disk import files

SUFFIX = ".txt"
CHUNK_BYTES = 2**20
log = logging.getLogger("andiron")


def file_of(folder: Path, cache: Path | None) -> Path:
    """A file with the texts below `folder`, one after the other in the order of their paths.

    It has the bytes of `cat`, and is named after their SHA-256, in the folder `cache` or beside
    `folder`; it is written if missing. Names that begin with a dot and other suffixes are ignored.
    Raises: DataError if there is no text, or one cannot be read or the file cannot be written.
    """
    folder = folder.absolute()
    found = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    shown = [path for path in found if not any(part.startswith(".") for part in path.parts)]
    texts = [folder / path for path in shown if path.suffix.lower() == SUFFIX]
    if not texts:
        raise errors.DataError(
            f"{folder}: has no text that ends in {SUFFIX}; rename its texts, or name one file"
        )
    try:
        digest = hashlib.sha256()
        for chunk in _chunks(texts):
            digest.update(chunk)
        joined = (cache or folder.parent) / f"{folder.name}.{digest.hexdigest()[:16]}{SUFFIX}"
        if not joined.is_file() or joined.stat().st_size != sum(map(_size, texts)):
            joined.parent.mkdir(parents=True, exist_ok=True)
            files.write_pieces(joined, _chunks(texts))
    except OSError as error:
        raise errors.DataError(
            f"{folder}: its texts cannot be joined ({error}); set data.cache to a folder that can "
            "be written"
        ) from error
    ignored = len(shown) - len(texts)
    log.info(
        "%s: %d texts from %s to %s are read as one, %s; %d other files are ignored",
        folder, len(texts), texts[0].name, texts[-1].name, joined.name, ignored,
    )  # fmt: skip
    return joined


def _size(path: Path) -> int:
    return path.stat().st_size


def _chunks(texts: Sequence[Path]) -> Iterator[bytes]:
    for path in texts:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(CHUNK_BYTES), b"")

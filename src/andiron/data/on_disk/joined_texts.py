"""The texts of a folder, joined once into a separate file."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from andiron import errors
from andiron.data import fingerprint
from andiron.disk import files

CHUNK_BYTES = 2**20
log = logging.getLogger("andiron")


def file_of(folder: Path, cache: Path | None) -> Path:
    """A file with the `.txt` files below `folder`, one after the other in the order of their paths.

    It has the bytes of `cat`, and lies in the folder `cache` or beside `folder`; it is written if
    missing. Names that begin with a dot are ignored.
    Raises: DataError if there is no text, one cannot be read, or the file cannot be written.
    """
    folder = folder.absolute()
    found = sorted(folder.rglob("*.[tT][xX][tT]"))
    texts = [path for path in found if "/." not in f"/{path.relative_to(folder).as_posix()}"]
    if not texts:
        raise errors.DataError(
            f"{folder}: has no text that ends in .txt; rename its texts, or name one file"
        )
    try:
        name = f"{folder.name}.{fingerprint.of_texts(map(fingerprint.of_file, texts))[:16]}.txt"
        joined = (cache or folder.parent) / name
        if not joined.is_file():
            joined.parent.mkdir(parents=True, exist_ok=True)
            files.write_pieces(joined, _chunks(texts))
    except OSError as error:
        raise errors.DataError(
            f"{folder}: its texts cannot be joined ({error}); data.cache names the folder of the "
            "joined file"
        ) from error
    log.info("%s: %d texts are read as one, %s", folder, len(texts), joined)
    return joined


def _chunks(texts: Sequence[Path]) -> Iterator[bytes]:
    for path in texts:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(CHUNK_BYTES), b"")

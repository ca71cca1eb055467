"""The checksum of files that are too large to be read whole at every start."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from andiron.data.on_disk.stored import StoredFile
from andiron.data.splitting import fingerprint

READ_WHOLE = 2**30  # bytes, of all files together: one to three seconds
SPANS, SPAN_BYTES = 64, 2**16  # of each larger file; the first has the header, the last the footer
SAMPLED = f"sizes, and {SPANS} spans of {SPAN_BYTES >> 10} KiB of each file"


def checksum_of(paths: Sequence[Path]) -> tuple[str, str | None]:
    """The SHA-256 of files, in order, and what it covers if that is not their whole content.

    Beyond READ_WHOLE bytes it covers the size of each file, its beginning, its end, and spans at
    even distances between them.
    Raises: DataError if a file cannot be read.
    """
    files = [*map(StoredFile, paths)]
    if sum(file.size for file in files) <= READ_WHOLE:
        whole = [*map(fingerprint.of_file, paths)]
        return whole[0] if len(whole) == 1 else fingerprint.of_texts(whole), None
    return fingerprint.of_texts(map(_sampled, files)), SAMPLED


def _sampled(file: StoredFile) -> str:
    digest = hashlib.sha256(f"{file.size}\n".encode())
    last = max(0, file.size - SPAN_BYTES)
    for number in range(SPANS):
        place = last * number // (SPANS - 1)
        digest.update(file.read(place, min(SPAN_BYTES, file.size - place)))
    return digest.hexdigest()

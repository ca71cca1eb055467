"""All images of a folder decoded once, into a file that later runs read from."""

import hashlib
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from andiron import errors, files
from andiron.data.on_disk import decoding, named_arrays
from andiron.data.on_disk.image_tree import ImageTree
from andiron.data.on_disk.stored import StoredDataset

VERSION = 1  # of how images are decoded; another one makes another file
AT_ONCE = 64  # files that threads work on together: what they give is in memory at once
RACY_NS = 2_000_000_000  # a file that is younger may change again without another time stamp
log = logging.getLogger("andiron")


def content_of(tree: ImageTree, cache: Path) -> str:
    """SHA-256 over the names, sizes and bytes of all images.

    It is remembered in `cache` for these names, sizes and times of change, so that later runs need not read all files.
    """
    stats = [(tree.root / name).stat() for name in tree.names]
    lines = [
        f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
        for name, stat in zip(tree.names, stats, strict=True)
    ]
    remembered = cache / f"listing-{_sha256(lines)[:16]}.json"
    if remembered.is_file():
        return str(files.read_json(remembered)["sha256"])
    before_ns = time.time_ns()
    digests = _in_threads(lambda name: _sha256_of(tree.root / name), tree.names, "reading images")
    content = _sha256(
        f"{name}\0{stat.st_size}\0{digest}\n"
        for name, stat, digest in zip(tree.names, stats, digests, strict=True)
    )
    if max(stat.st_mtime_ns for stat in stats) < before_ns - RACY_NS:
        _written(cache, lambda: files.write_json(remembered, {"sha256": content}))
    return content


def dataset(
    tree: ImageTree, content: str, cache: Path, *, size: int, channels: int
) -> StoredDataset:
    """The images of the tree from their file in `cache`, which is made if there is none.

    The file is safetensors: `inputs` [size, channels, height, width] of bytes, and `targets`. It is written whole or not
    at all, one image after another, so that any number fits. Its name is made of `content` and the shape.
    Raises: DataError if an image cannot be decoded, or the file not be written.
    """
    key = _sha256([content, f"{VERSION}/{size}/{channels}"])[:16]
    file = cache / f"images-{key}.safetensors"
    if not file.is_file():
        log.info("decoding %d images once, into %s", len(tree.names), file)
        rows = _in_threads(
            lambda name: decoding.decode(tree.root / name, size=size, channels=channels),
            tree.names,
            "decoding images",
        )
        _written(cache, lambda: _write(file, rows, tree.targets, (channels, size, size)))
    try:
        arrays = named_arrays.stored(file)
        return StoredDataset(arrays["inputs"], arrays["targets"])
    except (errors.DataError, KeyError, ValueError) as error:
        raise errors.DataError(
            f"{file}: the decoded images are damaged; remove the file to decode them again"
        ) from error


def _write(file: Path, rows: Iterator[Tensor], targets: Tensor, shape: Sequence[int]) -> None:
    """The safetensors file, a row at a time; the format is told in named_arrays."""
    of_targets, of_inputs = targets.numpy().tobytes(), len(targets) * shape[0] * shape[1] * shape[2]
    end = len(of_targets) + of_inputs
    header = {
        "targets": {"dtype": "I64", "shape": [len(targets)], "data_offsets": [0, len(of_targets)]},
        "inputs": {
            "dtype": "U8",
            "shape": [len(targets), *shape],
            "data_offsets": [len(of_targets), end],
        },
    }
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)  # the data begin at a multiple of 8 bytes
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as stream:
            stream.write(len(encoded).to_bytes(8, "little") + encoded + of_targets)
            for row in rows:
                stream.write(row.numpy().data)
            _sync(stream)
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _sync(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _written(cache: Path, write: Callable[[], None]) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise errors.DataError(
            f"{cache}: cannot be written to ({error.strerror}); name another folder with data.cache, make room, or decode "
            "the images at every batch: data.decoded=workers"
        ) from error


def _in_threads(function: Callable[[str], Any], names: Sequence[str], what: str) -> Iterator[Any]:
    """The function's value for each name, in order; hashing and decoding leave the interpreter to other threads."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    starts = range(0, len(names), AT_ONCE)
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="images") as threads:
        for start in track(
            starts, what, console=console, disable=not console.is_terminal, transient=True
        ):
            yield from threads.map(function, names[start : start + AT_ONCE])


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
    return digest.hexdigest()

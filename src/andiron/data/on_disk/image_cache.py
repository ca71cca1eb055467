"""All images of a folder decoded once, into a file that later runs read."""

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from andiron import errors, files
from andiron.data import fingerprint
from andiron.data.on_disk import stored
from andiron.data.on_disk.image_decoding import ImageFolderDataset
from andiron.serialization import safetensors_codec

VERSION = 1  # of how images are decoded; each version has files of its own
AT_ONCE = 64  # images that the threads decode together, and that are in memory at once
RACY_NS = 2_000_000_000  # a younger file may change again without another time stamp
log = logging.getLogger("andiron")


def content_of(images: ImageFolderDataset, cache: Path) -> str:
    """SHA-256 over the names, sizes and bytes of all images.

    It is stored in `cache` for these names, sizes and times of change, so that later runs need not
    read all files.
    """
    stats = {name: (images.root / name).stat() for name in images.names}
    listing = fingerprint.of_texts(
        f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
        for name, stat in stats.items()
    )
    remembered = cache / f"listing-{listing[:16]}.json"
    if remembered.is_file():
        return str(files.read_json(remembered)["sha256"])
    before_ns = time.time_ns()
    log.info("%s: reading all %d images, for their checksum", images.root, len(images.names))
    digests = _in_threads(lambda name: fingerprint.of_file(images.root / name), images.names)
    content = fingerprint.of_texts(
        f"{name}\0{stat.st_size}\0{digest}\n"
        for (name, stat), digest in zip(stats.items(), digests, strict=True)
    )
    if max(stat.st_mtime_ns for stat in stats.values()) < before_ns - RACY_NS:
        _write_into(cache, lambda: files.write_json(remembered, {"sha256": content}))
    return content


def dataset(images: ImageFolderDataset, content: str, cache: Path) -> stored.StoredDataset:
    """The images from their file in `cache`, which is made if it is missing.

    The safetensors file has `inputs` [size, channels, height, width] of bytes, and `targets`. It is
    written atomically, one image after another, so that any number fits. Its name depends on
    `content` and the shape.
    Raises: DataError if an image cannot be decoded, or the file cannot be written.
    """
    key = fingerprint.of_texts([content, f"{VERSION}/{images.size}/{images.channels}"])[:16]
    file = cache / f"images-{key}.safetensors"
    if not file.is_file():
        log.info("decoding %d images once, into %s", len(images.names), file)
        shapes = {
            "targets": (torch.int64, [len(images)]),
            "inputs": (torch.uint8, [len(images), images.channels, images.size, images.size]),
        }
        decoded = _in_threads(images.decoded, images.names)
        pieces = safetensors_codec.pieces(shapes, itertools.chain([images.targets], decoded))
        _write_into(cache, lambda: files.write_pieces(file, pieces))
    try:
        arrays = stored.arrays_in(file)
        return stored.StoredDataset(arrays["inputs"], arrays["targets"])
    except (errors.DataError, KeyError, ValueError) as error:
        raise errors.DataError(
            f"{file}: the decoded images are damaged; remove the file to decode them again"
        ) from error


def _write_into(cache: Path, write: Callable[[], None]) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise errors.DataError(
            f"{cache}: cannot be written to ({error.strerror}); name another folder with "
            "data.cache, make room, or decode the images at every batch: data.decoded=workers"
        ) from error


def _in_threads(function: Callable[[str], Any], names: Sequence[str]) -> Iterator[Any]:
    """The function's value for each name, in order; hashing and decoding release the GIL."""
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="images") as threads:
        for start in range(0, len(names), AT_ONCE):
            yield from threads.map(function, names[start : start + AT_ONCE])

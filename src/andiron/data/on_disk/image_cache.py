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

from andiron import errors
from andiron.data import fingerprint
from andiron.data.on_disk import stored
from andiron.data.on_disk.image_decoding import ImageFolderDataset
from andiron.disk import files
from andiron.serialization import safetensors_codec

VERSION = 1  # of the decoding; each version has its own files
AT_ONCE = 64  # images that the threads decode together, all in memory at once
RACY_NS = 2_000_000_000  # a younger file may change without a new time stamp
log = logging.getLogger("andiron")


def content_of(images: ImageFolderDataset, cache: Path) -> str:
    """SHA-256 over the names, sizes and bytes of all images, stored for later runs."""
    return remembered(images, cache, "listing", lambda: {"sha256": _content(images)})["sha256"]


def remembered(
    images: ImageFolderDataset, cache: Path, kind: str, find: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The result of `find` about the files, stored in `cache` by `kind`.

    `find` runs again if names, sizes or modification times changed.
    """
    stats = {name: (images.root / name).stat() for name in images.names}
    listing = fingerprint.of_texts(
        f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
        for name, stat in stats.items()
    )
    file = cache / f"{kind}-{listing[:16]}.json"
    if file.is_file():
        return files.read_json(file)
    before_ns = time.time_ns()
    result = find()
    if max(stat.st_mtime_ns for stat in stats.values()) < before_ns - RACY_NS:
        _write_into(cache, lambda: files.write_json(file, result))
    return result


def in_threads(function: Callable[[str], Any], names: Sequence[str]) -> Iterator[Any]:
    """The function's value for each name, in order; hashing and decoding release the GIL."""
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="images") as threads:
        for start in range(0, len(names), AT_ONCE):
            yield from threads.map(function, names[start : start + AT_ONCE])


def dataset(images: ImageFolderDataset, content: str, cache: Path) -> stored.StoredDataset:
    """The images from their file in `cache`, which is written if missing.

    The safetensors file has `inputs` [size, channels, height, width] of bytes, and `targets`. It is
    written atomically, image by image, in constant memory. Its name depends on
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
        decoded = in_threads(images.decoded, images.names)
        pieces = safetensors_codec.pieces(shapes, itertools.chain([images.targets], decoded))
        _write_into(cache, lambda: files.write_pieces(file, pieces))
    try:
        arrays = stored.arrays_in(file)
        return stored.StoredDataset(arrays["inputs"], arrays["targets"])
    except (errors.DataError, KeyError, ValueError) as error:
        raise errors.DataError(
            f"{file}: the decoded images are damaged; remove the file to decode them again"
        ) from error


def _content(images: ImageFolderDataset) -> str:
    log.info("%s: reading all %d images, for their checksum", images.root, len(images.names))
    sizes = [(images.root / name).stat().st_size for name in images.names]
    digests = in_threads(lambda name: fingerprint.of_file(images.root / name), images.names)
    return fingerprint.of_texts(
        f"{name}\0{size}\0{digest}\n"
        for name, size, digest in zip(images.names, sizes, digests, strict=True)
    )


def _write_into(cache: Path, write: Callable[[], None]) -> None:
    try:
        files.check_writing(cache)
        cache.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise errors.DataError(
            f"{cache}: cannot be written to ({error.strerror}); name another folder with "
            "data.cache, make room, or decode the images at every batch: data.decoded=workers"
        ) from error

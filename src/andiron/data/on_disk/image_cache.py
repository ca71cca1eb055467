"""All images of a folder decoded once, into a file that later runs read."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import stored
from andiron.data.on_disk.image_decoding import ImageFolderDataset
from andiron.data.splitting import fingerprint
from andiron.disk import files, guarded_folders
from andiron.plain.long_loops import watched
from andiron.serialization import safetensors_codec

VERSION = 1  # of the decoding; each version has its own files
AT_ONCE = 64  # images that the threads decode together, all in memory at once
RACY_NS = 2_000_000_000  # a younger file may change without a new time stamp
log = logging.getLogger("andiron")


def decoded(
    images: ImageFolderDataset, cache: Path
) -> tuple[stored.StoredDataset, dict[str, str], str]:
    """All images from their file in `cache`, which is written if missing.

    Then why some are unreadable, by name; their pixels are 0. Last, the SHA-256 over the names,
    sizes and bytes of the readable ones.

    The safetensors file has `inputs` [size, channels, height, width] of bytes, and `targets`. It is
    written atomically, image by image, in constant memory. Its name depends on the content of all
    images and the shape; names, sizes and modification times tell whether the content changed.
    Raises: DataError if the file cannot be written, or is damaged.
    """
    stats = {name: images.stat(name) for name in images.names}
    listing = _content(stats, {name: stat.st_mtime_ns for name, stat in stats.items()})
    note, before_ns, digests = cache / f"listing-{listing[:16]}.json", time.time_ns(), None
    if note.is_file():
        known = files.read_json(note)
    else:
        log.info("%s: reading all %d images, for their checksum", images.root, len(images))
        hashed = in_threads(lambda name: fingerprint.of_file(images.root / name), images.names)
        digests = dict(zip(images.names, hashed))
        known = {"whole": _content(stats, digests)}
    whole = known.get("whole") or known["sha256"]  # the note of an earlier version
    form = f"{VERSION}/{images.size}/{images.channels}"
    options = map(str, sorted(images.resizing.items()))
    key = fingerprint.of_texts([whole, form, *options])[:16]
    file, problems = cache / f"images-{key}.safetensors", cache / f"unreadable-{key}.json"
    if not file.is_file():
        _write_into(cache, lambda: _decode(images, file, problems))
    unreadable = files.read_json(problems) if problems.is_file() else {}
    if digests is not None:
        readable = {name: digest for name, digest in digests.items() if name not in unreadable}
        known["sha256"] = _content(stats, readable)
        if max(stat.st_mtime_ns for stat in stats.values()) < before_ns - RACY_NS:
            _write_into(cache, lambda: files.write_json(note, known))
    try:
        arrays = stored.arrays_in(file)
        dataset = stored.StoredDataset(arrays["inputs"], arrays["targets"], names=images.names)
    except (errors.DataError, KeyError, ValueError) as error:
        raise errors.DataError(
            f"{file}: the decoded images are damaged; remove the file to decode them again"
        ) from error
    return dataset, unreadable, known["sha256"]


def all_decoded(images: ImageFolderDataset) -> Iterator[tuple[str, Tensor | str]]:
    """The name of each image, and its pixels or why it cannot be read."""
    return zip(images.names, in_threads(images.decoded_or_problem, images.names), strict=True)


def in_threads(function: Callable[[Any], object], images: Sequence[object]) -> Iterator[Any]:
    """The function's value for each image, in order; hashing and decoding release the GIL."""
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="images") as threads:
        starts = range(0, len(images), AT_ONCE)
        for start in watched(starts, f"images, in groups of {AT_ONCE}", len(starts)):
            yield from threads.map(function, images[start : start + AT_ONCE])


def _content(stats: Mapping[str, os.stat_result], digests: Mapping[str, object]) -> str:
    """SHA-256 over the names, sizes and digests, or times, of these files."""
    return fingerprint.of_texts(
        f"{name}\0{stats[name].st_size}\0{digest}\n" for name, digest in digests.items()
    )


def _decode(images: ImageFolderDataset, file: Path, problems: Path) -> None:
    """Writes all images to `file`, and why some are unreadable to `problems`."""
    log.info("decoding %d images once, into %s", len(images), file)
    shape = [images.channels, images.size, images.size]
    unreadable: dict[str, str] = {}

    def rows() -> Iterator[Tensor]:
        yield images.targets
        for name, pixels in all_decoded(images):
            if isinstance(pixels, str):
                unreadable[name] = pixels
                pixels = torch.zeros(shape, dtype=torch.uint8)
            yield pixels
        if unreadable:
            files.write_json(problems, unreadable)

    number = len(images)
    shapes = {"targets": (torch.int64, [number]), "inputs": (torch.uint8, [number, *shape])}
    files.write_pieces(file, safetensors_codec.pieces(shapes, rows()))


def _write_into(cache: Path, write: Callable[[], None]) -> None:
    try:
        guarded_folders.check_writing(cache)
        cache.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise errors.DataError(
            f"{cache}: cannot be written to ({error.strerror}); name another folder with "
            "data.cache, make room, or decode the images at every batch: data.decoded=workers"
        ) from error

"""All images of a folder decoded once, into a file that later runs read: `data.decoded=once`."""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import image_decoding, stored
from andiron.data.on_disk.image_decoding import ImageFolderDataset, all_decoded, in_threads
from andiron.data.splitting import fingerprint
from andiron.disk import files, guarded_folders
from andiron.serialization import safetensors_codec

VERSION = 2  # of the decoding; each version has its own files
RACY_NS = 2_000_000_000  # a younger file may change without a new time stamp
FOLDER = ".andiron"  # beside the images
log = logging.getLogger("andiron")


def of_tree(
    images: ImageFolderDataset, labels: Mapping[str, str], cache: str | None
) -> tuple[stored.StoredDataset, dict[str, str], str]:
    """All images, why some are unreadable, and a checksum; see `_decoded`.

    The file is in the folder `cache`, or in FOLDER beside the images. `labels` are by
    name, if a table has them.
    """
    folder = images.root / FOLDER if cache is None else Path(cache).absolute()
    if labels:  # the targets are in the file
        folder /= fingerprint.of_texts(f"{labels[name]}\n" for name in images.names)[:16]
    return _decoded(images, folder)


def _decoded(
    images: ImageFolderDataset, cache: Path
) -> tuple[stored.StoredDataset, dict[str, str], str]:
    """All images from their file in `cache`, which is written if missing.

    Then why some are unreadable, by name; their pixels are 0. Last, the SHA-256 over the names,
    sizes and bytes of the readable ones.

    The safetensors file has `inputs` [size, channels, height, width] of bytes, and `targets`. It is
    written atomically, image by image, in constant memory. Its name depends on the names, sizes and
    modification times of all images, and on the shape.
    Raises: DataError if the file cannot be written, or is damaged.
    """
    young = time.time_ns() - RACY_NS
    stats = {name: image_decoding.stat(images.root / name) for name in images.names}
    times = (
        stat.st_mtime_ns if stat.st_mtime_ns < young else fingerprint.of_file(images.root / name)
        for name, stat in stats.items()
    )
    form = f"{VERSION}/{images.size}/{images.channels}"
    options = map(str, sorted(images.resizing.items()))
    key = fingerprint.of_texts([_content(stats, times), form, *options])[:16]
    file, note = cache / f"images-{key}.safetensors", cache / f"images-{key}.json"
    if not (file.is_file() and note.is_file()):
        _write(images, stats, file, note)
    described = files.read_json(note)
    try:
        arrays = stored.arrays_in(file)
        dataset = stored.StoredDataset(arrays["inputs"], arrays["targets"], names=images.names)
    except (errors.DataError, KeyError, ValueError) as error:
        raise errors.DataError(
            f"{file}: the decoded images are damaged; remove the file to decode them again"
        ) from error
    return dataset, described["unreadable"], described["sha256"]


def _content(stats: Mapping[str, os.stat_result], digests: Iterable[object]) -> str:
    """SHA-256 over the names, sizes and digests, or times, of these files."""
    return fingerprint.of_texts(
        f"{name}\0{stat.st_size}\0{digest}\n"
        for (name, stat), digest in zip(stats.items(), digests, strict=True)
    )


def _write(
    images: ImageFolderDataset, stats: Mapping[str, os.stat_result], file: Path, note: Path
) -> None:
    """Writes all images to `file`; their checksum, and why some are unreadable, to `note`."""
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

    number = len(images)
    shapes = {"targets": (torch.int64, [number]), "inputs": (torch.uint8, [number, *shape])}
    try:
        guarded_folders.check_writing(file.parent)
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_pieces(file, safetensors_codec.pieces(shapes, rows()))
        readable = {name: stat for name, stat in stats.items() if name not in unreadable}
        paths = [images.root / name for name in readable]
        sha256 = _content(readable, in_threads(fingerprint.of_file, paths))
        files.write_json(note, {"sha256": sha256, "unreadable": unreadable})
    except OSError as error:
        raise errors.DataError(
            f"{file.parent}: cannot be written to ({error.strerror}); name another folder with "
            "data.cache, make room, or decode the images at every batch: data.decoded=workers"
        ) from error

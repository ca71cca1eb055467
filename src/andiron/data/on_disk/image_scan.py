"""Reports every unreadable image of a folder at once, before the run."""

import logging
from collections.abc import Mapping

from andiron import errors
from andiron.data.on_disk import image_cache
from andiron.data.on_disk.image_decoding import ImageFolderDataset
from andiron.plain import readable

log = logging.getLogger("andiron")


def unreadable(images: ImageFolderDataset) -> dict[str, str]:
    """Why files cannot be read as an image, by name; decodes all of them."""
    log.info("%s: decoding all %d images, to find unreadable ones", images.root, len(images))
    made = image_cache.in_threads(images.decoded_or_problem, images.names)
    return {
        name: image for name, image in zip(images.names, made, strict=True)
        if isinstance(image, str)
    }  # fmt: skip


def skipped(images: ImageFolderDataset, unreadable: Mapping[str, str], most: int) -> list[str]:
    """The names of the unreadable files, at most `most`, which are logged.

    Raises: DataError listing them if there are more.
    """
    if not unreadable:
        return []
    found = f"{images.root}: {len(unreadable)} of {len(images)} images cannot be read"
    listed = readable.listed([f"{name}: {why}" for name, why in unreadable.items()])
    if len(unreadable) > most:
        allowed = f"; data.max_unreadable={most} skips fewer" if most else ""
        raise errors.DataError(
            f"{found}{allowed}:\n{listed}\nreplace or remove them, or skip them with "
            f"data.max_unreadable={len(unreadable)}"
        )
    log.warning("%s, and are skipped:\n%s", found, errors.printable(listed))
    return sorted(unreadable)

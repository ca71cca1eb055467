"""Decodes all images of a folder before the run, to report every unreadable one at once."""

import logging
from pathlib import Path

from andiron import errors
from andiron.data.on_disk import image_cache, image_decoding
from andiron.data.on_disk.image_decoding import ImageFolderDataset
from andiron.plain import readable

log = logging.getLogger("andiron")


def unreadable(images: ImageFolderDataset, *, most: int, cache: Path | None) -> list[str]:
    """The names of the files that cannot be read as an image, at most `most`.

    With `cache` they are stored there, and later read without decoding.
    Raises: DataError listing them if there are more.
    """
    if cache is None:
        problems = _problems(images)
    else:
        problems = image_cache.remembered(images, cache, "unreadable", lambda: _problems(images))
    if not problems:
        return []
    found = f"{images.root}: {len(problems)} of {len(images)} images cannot be read"
    reasons = {name: why.removesuffix(image_decoding.REMEDY) for name, why in problems.items()}
    listed = readable.listed([f"{name}: {why}" for name, why in reasons.items()])
    if len(problems) > most:
        allowed = f"; data.max_unreadable={most} skips fewer" if most else ""
        raise errors.DataError(
            f"{found}{allowed}:\n{listed}\nreplace or remove them, or skip them with "
            f"data.max_unreadable={len(problems)}"
        )
    log.warning("%s, and are skipped:\n%s", found, errors.printable(listed))
    return sorted(problems)


def _problems(images: ImageFolderDataset) -> dict[str, str]:
    """The reason for each unreadable file, by name."""
    log.info("%s: decoding all %d images, to find unreadable ones", images.root, len(images))

    def problem(name: str) -> str | None:
        try:
            images.decoded(name)
        except errors.DataError as error:
            return str(error).removeprefix(f"{images.root / name}: ")
        return None

    found = image_cache.in_threads(problem, images.names)
    return {name: why for name, why in zip(images.names, found, strict=True) if why is not None}

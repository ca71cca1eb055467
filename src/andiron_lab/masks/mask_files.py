"""Files of masks: a number for each pixel."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, Int32
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import image_decoding

NEAREST = 0  # Pillow's number of the filter
ROTATION, LAST_UPRIGHT = 274, 4  # the EXIF tag, and the last of its values with upright sides


def read(
    path: Path, shape: Sequence[int] | None = None
) -> Int32[Tensor, "rows columns"]:
    """The number of each pixel of a mask, of a palette its indices.

    With a `shape` [rows columns] other than its own, both sides are resized, by the nearest pixel.
    Raises: DataError if it has no exact number for each pixel, as colours and JPEG have.
    """
    with image_decoding.opened(path) as image:
        is_exact = image.mode in ("1", "L", "P") or image.mode.startswith("I")
        if not is_exact or image.format == "JPEG":
            raise errors.DataError(
                f"{path}: {image.format} of mode {image.mode}, and a mask has one exact number for "
                "each pixel, its class: make it again as PNG of 8 or 16 bits, not as colours or "
                "JPEG"
            )
        rows, columns = shape or image.size[::-1]
        values = np.array(image.resize((columns, rows), NEAREST), dtype=np.int32)
        is_negative = image.mode == "1" and image_decoding.is_inverted(image)
        return torch.from_numpy(1 - values if is_negative else values)


def size_of(path: Path) -> tuple[int, int]:
    """The rows and columns of an image, after the camera's rotation; only the header is read.

    Raises: DataError as `image_decoding.of_file`.
    """
    with image_decoding.opened(path) as image:
        columns, rows = image.size
        is_lying = image.getexif().get(ROTATION, 1) > LAST_UPRIGHT
        return (columns, rows) if is_lying else (rows, columns)


def png_of(
    classes: Int[Tensor, "height width"], numbers: Sequence[int], size: tuple[int, int]
) -> bytes:
    """A PNG of 8 or 16 bits with the number of the class of each pixel.

    The mask is resized to the `size` (rows, columns), by the nearest pixel.
    """
    from PIL import Image

    dtype = np.uint8 if max(numbers) < 256 else np.uint16
    image = Image.fromarray(np.array(numbers, dtype)[classes.cpu().numpy()])
    rows, columns = size
    image.resize((columns, rows), NEAREST).save(written := io.BytesIO(), "PNG")
    return written.getvalue()

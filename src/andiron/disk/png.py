"""PNG files of pixels and masks."""

import io
from collections.abc import Sequence
from typing import Any


def of_mask(classes: Any, numbers: Sequence[int], size: tuple[int, int]) -> bytes:
    """A PNG of 8 or 16 bits with the number of the class of each pixel.

    The mask [height, width] is resized to the `size` (rows, columns), by the nearest pixel.
    """
    import numpy
    from PIL import Image

    dtype = numpy.uint8 if max(numbers) < 256 else numpy.uint16
    image = Image.fromarray(numpy.array(numbers, dtype)[classes.cpu().numpy()])
    rows, columns = size
    image.resize((columns, rows), Image.Resampling.NEAREST).save(written := io.BytesIO(), "PNG")
    return written.getvalue()


def of_pixels(pixels: Any) -> bytes:
    """A PNG of a tensor, uint8 [channels, height, width] with 1 or 3 channels."""
    from PIL import Image  # slow; tensorboard requires it

    array, written = pixels.permute(1, 2, 0).cpu().numpy(), io.BytesIO()
    Image.fromarray(array[:, :, 0] if len(pixels) == 1 else array).save(written, "PNG")
    return written.getvalue()

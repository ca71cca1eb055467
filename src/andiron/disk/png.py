"""PNG files of pixels."""

import io
from typing import Any


def of_pixels(pixels: Any) -> bytes:
    """A PNG of a tensor, uint8 [channels, height, width] with 1 or 3 channels."""
    from PIL import Image  # slow; tensorboard requires it

    array, written = pixels.permute(1, 2, 0).cpu().numpy(), io.BytesIO()
    Image.fromarray(array[:, :, 0] if len(pixels) == 1 else array).save(written, "PNG")
    return written.getvalue()

"""PNG files of pixels and of matplotlib figures, and literal texts for figures."""

import io
from typing import Any

from andiron import errors


def of_pixels(pixels: Any) -> bytes:
    """A PNG of a tensor, uint8 [channels, height, width] with 1 or 3 channels."""
    from PIL import Image  # slow; tensorboard requires it

    array, written = pixels.permute(1, 2, 0).cpu().numpy(), io.BytesIO()
    Image.fromarray(array[:, :, 0] if len(pixels) == 1 else array).save(written, "PNG")
    return written.getvalue()


def of_figure(figure: Any, **options: Any) -> bytes:
    """A PNG of a figure; `options` are passed to its `savefig`."""
    written = io.BytesIO()
    figure.savefig(written, dpi=120, format="png", **options)
    return written.getvalue()


def label(text: str) -> str:
    """Text on one line that matplotlib does not read as a formula."""
    return errors.printable_line(text).replace("$", r"\$")

"""PNG files of matplotlib figures, and literal texts for figures."""

import io
from typing import Any

from andiron.plain import readable


def as_png(figure: Any, **options: object) -> bytes:
    """A PNG of a figure; `options` are passed to its `savefig`."""
    written = io.BytesIO()
    figure.savefig(written, dpi=120, format="png", **options)
    return written.getvalue()


def label(text: str) -> str:
    """Text on one line that matplotlib does not read as a formula."""
    return readable.printable_line(text).replace("$", r"\$")

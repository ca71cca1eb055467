"""What the person who starts a run sees of it."""

import sys

from andiron.protocols import Renderer
from andiron.render.live import Live
from andiron.render.plain import Plain


def auto() -> Renderer:
    """A redrawn line if standard output is a terminal, else one line for each epoch."""
    return Live() if sys.stdout.isatty() else Plain()


__all__ = ["Live", "Plain", "auto"]

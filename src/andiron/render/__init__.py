"""What the person who started a run sees of it."""

import sys

from andiron.protocols import Renderer
from andiron.render.live import Live
from andiron.render.plain import Plain


def auto() -> Renderer:
    """A live line if standard output is a terminal, one line an epoch if not."""
    return Live() if sys.stdout.isatty() else Plain()


__all__ = ["Live", "Plain", "auto"]

"""What the person who starts a run sees of it."""

import sys
from pathlib import Path

from andiron.protocols import Renderer
from andiron.render.dashboard import Dashboard
from andiron.render.live import Live
from andiron.render.plain import Plain
from andiron.screen import terminal

COLUMNS, ROWS = 100, 30  # of the smallest terminal that gets the dashboard unasked


def auto(run_dir: Path | None = None) -> Renderer:
    """The dashboard on a terminal of 100x30 or more; on another a redrawn line; else plain lines.
    """
    if not sys.stdout.isatty():
        return Plain()
    found = terminal.here()
    columns, rows = found.size if found and found.is_foreground else (0, 0)
    return Dashboard(run_dir) if columns >= COLUMNS and rows >= ROWS else Live()


__all__ = ["Dashboard", "Live", "Plain", "auto"]

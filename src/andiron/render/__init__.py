"""Renderers: the terminal output of a run."""

import sys
from pathlib import Path

from andiron.plain import wings
from andiron.protocols import Renderer
from andiron.render.plain import Plain

COLUMNS, ROWS = 100, 30  # of the smallest terminal for the dashboard by default


def auto(run_dir: Path | None = None) -> Renderer:
    """The dashboard on a terminal of 100x30 or more; on another a redrawn line; else plain lines.
    """
    if not sys.stdout.isatty():
        return Plain()
    screen = wings.optional("screen.terminal")
    terminal = screen and screen.here()
    columns, rows = terminal.size if terminal and terminal.is_foreground else (0, 0)
    return Dashboard(run_dir) if columns >= COLUMNS and rows >= ROWS else Live()


def Dashboard(run_dir: Path | None = None) -> Renderer:
    """The full-screen dashboard with keys; plain lines where standard output has no screen.

    Plain lines also if `andiron.wings.screen` was deleted.
    """
    screen = wings.optional("screen.dashboard")
    renderer: Renderer | None = screen and screen.on_terminal(run_dir)
    return renderer or Plain()


def Live() -> Renderer:
    """One line that is redrawn; plain lines if `andiron.wings.screen` was deleted."""
    screen = wings.optional("screen.live")
    renderer: Renderer = screen.Live() if screen else Plain()
    return renderer


def for_python() -> Renderer:
    """The redrawn output of a notebook, if the lab is there; else plain lines."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    is_in_notebook = type(shell).__name__ == "ZMQInteractiveShell"
    lab = is_in_notebook and wings.optional(f"{wings.LAB}.views.notebook")
    renderer: Renderer = lab.Notebook() if lab else Plain()
    return renderer


__all__ = ["Dashboard", "Live", "Plain", "auto", "for_python"]

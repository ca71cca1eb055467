"""The layout of the screen: which panels are shown, and where."""

from collections.abc import Sequence

from rich.console import Console, Group
from rich.layout import Layout
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from andiron.wings.screen import panels
from andiron.wings.screen.view import Choice, View

WIDE, TALL = 90, 20  # the smallest screen with two columns
SMALLEST_PLOT, SMALLEST_LOG = 6, 4  # rows, with the title


def screen(view: View, choice: Choice, width: int, height: int) -> Layout:
    """The whole screen; a narrow one has a single column, a small one the essentials."""
    is_wide = width >= WIDE and height >= TALL
    left = max(44, width * 2 // 5) if is_wide else 0
    head, keys = panels.head(view, width), Layout(panels.keys(view), size=1)
    room = height - len(head) - 1
    bottom = max(SMALLEST_LOG, room // 4)
    rows = room - bottom if is_wide else max(SMALLEST_PLOT, room // 3)
    plot = _panel("plot", panels.plot(view, choice, width - left - 1, rows - 1), rows)
    log = _panel("log", panels.log(view, bottom - 1), bottom)
    makers = panels.metrics, panels.groups, panels.machine
    tables = [(make.__name__, make(view, (left or width) - 1)) for make in makers]
    metrics, *others = (_panel(title, lines, len(lines) + 1) for title, lines in tables)
    if choice.has_help:
        body = [_panel("keys", panels.help_(view), None)]
    elif is_wide:
        upper, numbers, plot.size = Layout(), Layout(size=left), None
        numbers.split_column(*_stack([metrics, *others], rows))
        upper.split_row(numbers, plot)
        body = [upper, log]
    else:
        body = _stack([metrics, plot, log, *others], room)
    whole = Layout()
    whole.split_column(Layout(Group(*head), size=len(head)), *body, keys)
    return whole


def as_text(view: View, choice: Choice, width: int, height: int) -> str:
    """The screen without colours, for a file or a pipe."""
    console = Console(width=width, height=height, color_system=None)
    lines = console.render_lines(screen(view, choice, width, height))
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def _panel(title: str, lines: list[Text], rows: int | None) -> Layout:
    head = Rule(f"─ {title}", align="left", style="dim")
    return Layout(Group(head, Padding(Group(*lines), (0, 0, 0, 1))), size=rows)


def _stack(panels: Sequence[Layout], rows: int) -> list[Layout]:
    """The first panel, and the others that fit below it; the last one has the rest of the rows."""
    shown: list[Layout] = []
    for panel in panels:
        needed = panel.size or 0
        if not shown or needed <= rows:
            shown.append(panel)
            rows -= needed
    shown[-1].size = None
    return shown

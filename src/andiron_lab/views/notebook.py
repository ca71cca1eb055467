"""One output of a notebook cell, redrawn while a run trains: a bar and a table."""

import base64
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import starmap
from typing import Any

from andiron.disk import png
from andiron.interrupter import Interrupter
from andiron.plain.plain_values import Plain
from andiron.plain.readable import duration, number
from andiron.progress import Progress
from andiron.protocols import Point
from andiron.render.text import METRICS, TimeLeft, summary_lines

SECONDS_BETWEEN_DRAWINGS = 0.5
MOST_ROWS = 12  # epochs in the table


class Notebook:
    """Redraws the output of the cell at log points, at most twice a second, and after epochs."""

    def __init__(self) -> None:
        self._rows: list[dict[str, str]] = []
        self._images: Plain = {}  # the latest, by split and metric
        self._handle: Any = None
        self._drawn = 0.0

    def connect(self, interrupter: Interrupter, directions: Mapping[str, str]) -> None:
        """Does nothing: a cell has no keys."""

    def start(self, progress: Progress) -> None:
        """Shows an empty bar below the cell."""
        from IPython.display import HTML, display  # only a notebook has it

        self._progress, self._started = progress, time.perf_counter()
        self._time_left = TimeLeft()
        self._html = HTML
        self._handle = display(HTML(self._page()), display_id=True)

    def add(self, point: Point) -> None:
        """Receives a logged point: the pictures of its metrics."""
        self._images |= {f"{point.split} {name}": image for name, image in point.images.items()}
        if time.perf_counter() - self._drawn > SECONDS_BETWEEN_DRAWINGS:
            self._draw()

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Adds a row to the table."""
        values = {
            f"{split} {name}": number(value)
            for split, measured in progress.latest.items()
            for name, value in measured.items()
            if "/" not in name
        }
        self._rows.append({"epoch": str(progress.epoch), "update": str(progress.updates)} | values)
        self._draw()

    def stop(self) -> None:
        """Draws the last state, which stays."""
        self._draw()

    def show(self, summary: Plain) -> None:
        """Adds the summary's content, without classes: a cell shows its whole output."""
        written = summary_lines(summary)
        rows = [dict(zip(METRICS, row, strict=True)) for row in written.metrics]
        lines = written.title, *written.lines, written.place
        self._draw("".join(f"<p>{escape(line)}</p>" for line in lines), _table(rows))

    def _draw(self, line: str = "", results: str = "") -> None:
        self._drawn = time.perf_counter()
        if self._handle is not None:
            self._handle.update(self._html(self._page(results) + line))

    def _page(self, results: str = "") -> str:
        progress = self._progress
        left = self._time_left.seconds(progress, time.perf_counter() - self._started)
        line = (
            f"epoch {progress.epoch}/{progress.num_epochs}, "
            f"update {progress.updates}/{progress.num_updates}"
        )
        if left:
            line += f", {duration(left)} left"
        bar = f'<progress value="{progress.updates}" max="{max(progress.num_updates, 1)}">'
        rows = self._rows[-MOST_ROWS:]
        tables = f'<div style="display:flex;flex-wrap:wrap;gap:24px">{_table(rows)}{results}</div>'
        images = "".join(starmap(_picture, self._images.items()))
        return f"<p>{bar}</progress> {line}</p>{tables}{images}"


def _picture(name: str, pixels: Any) -> str:
    """A picture of a metric, within the page."""
    data = base64.b64encode(png.of_pixels(pixels)).decode()
    return f'<p>{escape(name)}<br><img src="data:image/png;base64,{data}"></p>'


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    """An HTML table with a column for each key."""
    columns = dict.fromkeys(key for row in rows for key in row)
    lines = [_row("td", [row.get(column, "") for column in columns]) for row in rows]
    head = _row("th", columns) if rows else ""
    return f'<table style="margin:0 0 auto">{head}{"".join(lines)}</table>'


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

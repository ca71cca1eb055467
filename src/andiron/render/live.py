"""A progress line that is redrawn on a terminal, with rich."""

import threading
import time
from collections import deque
from typing import Any

from rich.console import Console
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from andiron.protocols import Progress
from andiron.readable import duration
from andiron.render import plain, summary_table, text

SECONDS_BETWEEN_DRAWINGS = 0.2
WIDE = 120  # columns; a narrower terminal shows two metrics of both splits, and no speed


class Live:
    """One line that is redrawn while an epoch runs, and a line that stays for each finished epoch.

    A thread draws five times a second from the learner's `Progress`: an update costs the training
    nothing, and an epoch only the queueing of its line (rich takes 2 ms to draw one, a tenth of an
    epoch of digits).
    """

    def __init__(self, console: Console | None = None):
        self._console = console or Console()
        self._progress = Progress(num_epochs=0)
        self._started = time.perf_counter()
        self._undrawn: deque[str] = deque()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, progress: Progress) -> None:
        """Shows the line."""
        self._progress = progress
        self._started = time.perf_counter()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._draw, name="render", daemon=True)
        self._thread.start()

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Adds a line for the epoch above the one that is redrawn."""
        self._undrawn.append(plain.line(progress, seconds))

    def stop(self) -> None:
        """Removes the line once the lines of all epochs are drawn."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def show(self, summary_: dict[str, Any]) -> None:
        """Prints the summary table."""
        summary_table.show(summary_, self._console)

    def _draw(self) -> None:
        with RichLive(
            console=self._console, get_renderable=self._line, auto_refresh=False, transient=True
        ) as display:
            while not self._stopping.wait(SECONDS_BETWEEN_DRAWINGS):
                self._draw_epochs()
                display.refresh()
            self._draw_epochs()

    def _draw_epochs(self) -> None:
        if self._undrawn:
            lines = [self._undrawn.popleft() for _ in range(len(self._undrawn))]
            self._console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)

    def _line(self) -> Table:
        progress, elapsed = self._progress, time.perf_counter() - self._started
        epochs = progress.epoch - progress.first_epoch
        done = epochs * progress.num_batches + progress.batch - progress.first_batch
        epochs = progress.num_epochs - progress.first_epoch + 1
        total = epochs * progress.num_batches - progress.first_batch
        batches_per_second = done / elapsed if elapsed else 0.0
        left = duration((total - done) / batches_per_second) if batches_per_second else "?"
        samples = batches_per_second * progress.num_items / max(progress.num_batches, 1)
        is_wide = self._console.width >= WIDE
        if is_wide:
            speed = f"{samples:,.0f} samples/s"
            cells = [f"update {progress.updates}", text.splits(progress), speed]
        else:
            cells = [text.side_by_side(progress)]
        row = Table.grid(padding=(0, 2))
        row.add_row(
            Text(f"epoch {progress.epoch}/{progress.num_epochs}", no_wrap=True),
            ProgressBar(max(progress.num_batches, 1), progress.batch, width=20 if is_wide else 4),
            *(Text(cell, overflow="ellipsis", no_wrap=True) for cell in (*cells, f"{left} left")),
        )
        return row

"""A live progress line on a terminal, drawn with rich."""

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
from andiron.render import plain, summary_table, text

SECONDS_BETWEEN_DRAWINGS = 0.2


class Live:
    """One line that moves while an epoch runs, and a line that stays for every epoch done.

    A thread of its own draws, five times a second, from the learner's `Progress`: an update costs the training
    nothing, and an epoch no more than a line put aside (rich takes 2 ms to draw one, a tenth of an epoch of digits).
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
        """Leaves a line for the epoch above the moving one."""
        self._undrawn.append(plain.line(progress, seconds))

    def stop(self) -> None:
        """Takes the line away, once every epoch's own is drawn."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def show(self, summary_: dict[str, Any]) -> None:
        """The summary table."""
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
        done = (
            (progress.epoch - progress.first_epoch) * progress.num_batches
            + progress.batch
            - progress.first_batch
        )
        total = (
            progress.num_epochs - progress.first_epoch + 1
        ) * progress.num_batches - progress.first_batch
        batches_per_second = done / elapsed if elapsed else 0.0
        left = text.duration((total - done) / batches_per_second) if batches_per_second else "?"
        samples = batches_per_second * progress.num_items / max(progress.num_batches, 1)
        bar_width = 20 if self._console.width >= 120 else 6
        row = Table.grid(padding=(0, 2))
        row.add_row(
            Text(f"epoch {progress.epoch}/{progress.num_epochs}", no_wrap=True),
            ProgressBar(
                total=max(progress.num_batches, 1), completed=progress.batch, width=bar_width
            ),
            Text(f"update {progress.updates}", no_wrap=True),
            Text(text.splits(progress), overflow="ellipsis", no_wrap=True),
            Text(f"{samples:,.0f} samples/s", no_wrap=True),
            Text(f"{left} left", no_wrap=True),
        )
        return row

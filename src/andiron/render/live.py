"""A live progress line on a terminal, drawn with rich."""

import time
from typing import Any

from rich.console import Console
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from andiron.protocols import Progress
from andiron.render import plain, summary, text

REFRESHES_PER_SECOND = 5


class Live:
    """One line that moves while an epoch runs, and a line that stays for every epoch done.

    It reads the learner's `Progress` whenever it draws, so that an update costs the training nothing.
    """

    def __init__(self, console: Console | None = None):
        self._console = console or Console()
        self._progress = Progress(num_epochs=0)
        self._started = time.perf_counter()
        self._display: RichLive | None = None

    def start(self, progress: Progress) -> None:
        """Shows the line."""
        self._progress = progress
        self._started = time.perf_counter()
        self._display = RichLive(
            console=self._console,
            get_renderable=self._line,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        self._display.start()

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Leaves a line for the epoch above the moving one."""
        self._console.print(plain.line(progress, seconds), highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Takes the line away."""
        if self._display is not None:
            self._display.stop()
            self._display = None

    def show(self, summary_: dict[str, Any]) -> None:
        """The summary table."""
        summary.show(summary_, self._console)

    def _line(self) -> Table:
        progress, elapsed = self._progress, time.perf_counter() - self._started
        done = (progress.epoch - progress.first_epoch) * progress.num_batches + progress.batch
        total = (progress.num_epochs - progress.first_epoch + 1) * progress.num_batches
        batches_per_second = done / elapsed if elapsed else 0.0
        left = text.duration((total - done) / batches_per_second) if batches_per_second else "?"
        samples = batches_per_second * progress.num_items / max(progress.num_batches, 1)
        row = Table.grid(padding=(0, 2))
        row.add_row(
            Text(f"epoch {progress.epoch}/{progress.num_epochs}"),
            ProgressBar(total=max(progress.num_batches, 1), completed=progress.batch, width=20),
            Text(f"update {progress.updates}"),
            Text(text.splits(progress), overflow="ellipsis", no_wrap=True),
            Text(f"{samples:,.0f} samples/s"),
            Text(f"{left} left"),
        )
        return row

"""A progress line that is redrawn on a terminal, with rich."""

import threading
import time
from collections import deque
from typing import Any

from rich.console import Console
from rich.live import Live as RichLive
from rich.text import Text

from andiron.plain.readable import duration
from andiron.progress import Progress
from andiron.render import summary_table, text

SECONDS_BETWEEN_DRAWINGS = 0.2
BAR = 20  # columns


class Live:
    """One line that is redrawn while an epoch runs, and a permanent line for each finished epoch.

    A thread draws five times a second from the learner's `Progress`: an update costs the training
    nothing, and an epoch only the queueing of its line (rich takes 2 ms to draw one, a tenth of an
    epoch of digits).
    """

    def __init__(self, console: Console | None = None):
        self._console = console or Console()
        self._undrawn: deque[str] = deque()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, progress: Progress) -> None:
        """Shows the line."""
        self._progress, self._time_left = progress, text.TimeLeft()
        self._started = time.perf_counter()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._draw, name="render", daemon=True)
        self._thread.start()

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Adds a line for the epoch above the redrawn line."""
        self._undrawn.append(text.line(progress, seconds))

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

    def _line(self) -> Text:
        elapsed = time.perf_counter() - self._started
        left = self._time_left.seconds(self._progress, elapsed)
        content = _content(self._progress, elapsed, left, self._console.width)
        line = Text(content, no_wrap=True, overflow="ellipsis")
        line.highlight_regex("━+", "bar.complete")
        return line


def _content(progress: Progress, elapsed: float, seconds: float | None, columns: int) -> str:
    """Place, a bar, every value, speed and time left; a narrower terminal cuts the values."""
    left = f"  {'?' if seconds is None else duration(seconds)} left"
    batches = (progress.epoch - progress.first_epoch) * progress.num_batches
    samples = (batches + progress.batch - progress.first_batch) * progress.num_items
    per_second = samples / max(progress.num_batches, 1) / elapsed if elapsed else 0.0
    bar = "━" * (BAR * progress.batch // max(progress.num_batches, 1))
    epoch = f"{progress.epoch}/{progress.num_epochs}"
    update = f"{progress.updates}/{progress.num_updates}"
    whole = f"epoch {epoch}  {bar:{BAR}}  update {update}  {text.splits(progress)}"
    whole += f"  {per_second:,.0f} samples/s"
    if len(whole + left) <= columns:
        return whole + left
    return f"{epoch}  {update}{left}  {text.splits(progress)}"

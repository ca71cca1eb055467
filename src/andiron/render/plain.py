"""One line for each epoch, for a file or a pipe; more lines for an epoch that takes long."""

import threading
from typing import Any

from andiron import randomness
from andiron.progress import FIRST_SECONDS, Progress
from andiron.render import text

MOST_SECONDS = 640.0  # between two lines of an epoch that takes long


class Plain:
    """Prints a line when an epoch ends, and the summary at the end.

    While the updates of an epoch take long, or the first one does, a thread prints where they are:
    after ten seconds, and then after ever longer intervals. rich is imported for the summary.
    """

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, progress: Progress) -> None:
        """Starts the thread."""
        self._is_over.clear()
        self._thread = threading.Thread(target=self._tell, args=[progress], daemon=True)
        self._thread.start()

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Prints the epoch, its values on both splits, and its speed."""
        print(text.line(progress, seconds))

    def stop(self) -> None:
        """Ends the thread."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def show(self, summary: dict[str, Any]) -> None:
        """Prints the summary table."""
        with randomness.global_generators_restored():  # the import draws from Python's
            from rich.console import Console

            from andiron.render import summary_table

        summary_table.show(summary, Console(width=1000))  # a file or a pipe has none

    def _tell(self, progress: Progress) -> None:
        seconds, epoch, updates = FIRST_SECONDS, progress.epoch, progress.updates
        while not self._is_over.wait(seconds):
            # a validation, in which no updates are made, has lines of its own
            is_first = progress.updates == progress.first_updates
            is_training = is_first or progress.updates != updates
            if progress.epoch == epoch and is_training:
                place = f"epoch {epoch}/{progress.num_epochs}  update {progress.updates}"
                print(f"{place}/{progress.num_updates}  {text.splits(progress)}".rstrip())
                seconds = min(2 * seconds, MOST_SECONDS)
            epoch, updates = progress.epoch, progress.updates

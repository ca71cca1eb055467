"""One line an epoch, for a file or a pipe."""

import sys
from typing import Any, TextIO

from rich.console import Console

from andiron.protocols import Progress
from andiron.render import summary, text


class Plain:
    """Prints a line when an epoch has ended and the summary at the end."""

    def __init__(self, file: TextIO | None = None):
        self._file = file or sys.stdout

    def start(self, progress: Progress) -> None:
        """Nothing to show yet."""

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """The epoch, its values on both splits, its speed."""
        print(line(progress, seconds), file=self._file, flush=True)

    def stop(self) -> None:
        """Nothing to put away."""

    def show(self, summary_: dict[str, Any]) -> None:
        """The summary table."""
        summary.show(summary_, Console(file=self._file, width=100))


def line(progress: Progress, seconds: float) -> str:
    """`epoch 3/10  update 63  train loss ...  |  valid loss ...  |  90,123 samples/s`."""
    width = len(str(progress.num_epochs))
    speed = progress.num_items / seconds if seconds else 0.0
    return (
        f"epoch {progress.epoch:>{width}}/{progress.num_epochs}  update {progress.updates:>5}  "
        f"{text.splits(progress)}  |  {speed:,.0f} samples/s"
    )

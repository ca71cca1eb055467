"""One line for each epoch, for a file or a pipe."""

from typing import Any

from rich.console import Console

from andiron.protocols import Progress
from andiron.render import summary_table, text


class Plain:
    """Prints a line when an epoch ends, and the summary at the end."""

    def __init__(self, console: Console | None = None):
        self._console = console or Console(width=100)

    def start(self, progress: Progress) -> None:
        """Prints nothing yet."""

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Prints the epoch, its values on both splits, and its speed."""
        self._console.print(line(progress, seconds), highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        """Does nothing: there is no line to remove."""

    def show(self, summary_: dict[str, Any]) -> None:
        """Prints the summary table."""
        summary_table.show(summary_, self._console)


def line(progress: Progress, seconds: float) -> str:
    """`epoch 3/10  update 63  train loss ...  |  valid loss ...  |  90,123 samples/s`."""
    width = len(str(progress.num_epochs))
    before = progress.first_batch if progress.epoch == progress.first_epoch else 0
    samples = progress.num_items * (1 - before / max(progress.num_batches, 1))
    speed = samples / seconds if seconds else 0.0
    return (
        f"epoch {progress.epoch:>{width}}/{progress.num_epochs}  update {progress.updates:>5}  "
        f"{text.splits(progress)}  |  {speed:,.0f} samples/s"
    )

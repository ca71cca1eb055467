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
        shown = line(progress, seconds, self._console.width)
        self._console.print(shown, highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        """Does nothing: there is no line to remove."""

    def show(self, summary_: dict[str, Any]) -> None:
        """Prints the summary table."""
        summary_table.show(summary_, self._console)


def line(progress: Progress, seconds: float, columns: int | None = None) -> str:
    """`epoch 3/10  update 63  train loss ...  |  valid loss ...  |  90,123 samples/s`.

    To fit `columns`, the speed is left out, then the splits share a column for each metric.
    """
    width = len(str(progress.num_epochs))
    before = progress.first_batch if progress.epoch == progress.first_epoch else 0
    samples = progress.num_items * (1 - before / max(progress.num_batches, 1))
    speed = samples / seconds if seconds else 0.0
    place = f"epoch {progress.epoch:>{width}}/{progress.num_epochs}  update {progress.updates:>5}  "
    whole = f"{place}{text.splits(progress)}"
    with_speed = f"{whole}  |  {speed:,.0f} samples/s"
    if columns is None or len(with_speed) <= columns:
        return with_speed
    if len(whole) <= columns:
        return whole
    return place + text.tight_splits(progress, columns - len(place))

"""One line for each epoch, for a file or a pipe."""

from functools import cached_property
from typing import Any

from andiron import randomness
from andiron.protocols import Progress
from andiron.render import text


class Plain:
    """Prints a line when an epoch ends, and the summary at the end.

    rich is imported for the first line.
    """

    def __init__(self, console: Any = None):
        self._given = console

    @cached_property
    def _console(self) -> Any:
        with randomness.global_generators_restored():  # the import draws from Python's
            from rich.console import Console

        return self._given or Console(width=1000)  # a file or a pipe has none

    def start(self, progress: Progress) -> None:
        """Prints nothing yet."""

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Prints the epoch, its values on both splits, and its speed."""
        shown = text.line(progress, seconds)
        self._console.print(shown, highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        """Does nothing: there is no line to remove."""

    def show(self, summary: dict[str, Any]) -> None:
        """Prints the summary table."""
        console = self._console  # rich is imported
        from andiron.render import summary_table

        summary_table.show(summary, console)

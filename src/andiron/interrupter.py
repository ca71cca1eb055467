"""Whether a run should stop; the learner asks wherever the run can be left and resumed."""

from collections.abc import Iterator
from contextlib import contextmanager

from andiron import errors


class Interrupter:
    """Answers yes once `stop` was called, which a signal handler or another thread may do."""

    is_watched = False  # whether `at` is to be called at every place, and not only once asked

    def __init__(self) -> None:
        self.asked: errors.Interrupted | None = None
        self.is_heard = False  # while a learner asks: it finishes its update and saves

    def stop(self, reason: str, exit_code: int = 130) -> None:
        """Makes the run stop when it asks next; the first reason counts."""
        self.asked = self.asked or errors.Interrupted(reason, exit_code)

    def hear(self) -> None:
        """Leaves it to a learner to stop, from here on.

        Raises: Interrupted if `stop` was called before.
        """
        self.is_heard = True
        if self.asked:
            raise self.asked

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Work that must not be left in the middle: an interruption is raised after it."""
        self.is_heard = True
        try:
            yield
        finally:
            self.is_heard = False
        if self.asked:
            raise self.asked

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether to stop after `updates`, before batch `batch` (from 0) of a pass over `split`."""
        return self.asked is not None

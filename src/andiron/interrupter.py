"""Whether a run should stop; the learner asks wherever the run can be left and resumed."""

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

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether to stop after `updates`, before batch `batch` (from 0) of a pass over `split`."""
        return self.asked is not None

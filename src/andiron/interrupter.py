"""Whether a run should stop: asked by the learner wherever it can be left and taken up again."""

from andiron import errors


class Interrupter:
    """Says yes from the first `stop` on, which a signal handler or another thread may call."""

    def __init__(self) -> None:
        self.asked: errors.Interrupted | None = None
        self.is_heard = False  # while a learner asks: an update is finished and saved then

    def stop(self, reason: str, exit_code: int = 130) -> None:
        """Has the run stop when it is next asked; the first reason counts."""
        self.asked = self.asked or errors.Interrupted(reason, exit_code)

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether to stop here: after so many completed updates, before batch `batch` of a pass over `split`, counted from 0."""
        return self.asked is not None


class StopsAt(Interrupter):
    """Stops at one chosen place: what a proof of the resume needs."""

    def __init__(self, split: str, updates: int | None = None, batch: int | None = None):
        super().__init__()
        self.split, self.updates, self.batch = split, updates, batch

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether it is that place; None of it stands for any."""
        if split == self.split and self.updates in (None, updates) and self.batch in (None, batch):
            self.stop(f"at {split}, update {updates}, batch {batch}")
        return super().at(split, updates, batch)

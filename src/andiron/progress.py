"""The progress of a run, as the learner counts it and a renderer shows it."""

from dataclasses import dataclass, field


@dataclass
class Progress:
    """The progress of a run: written by the learner, read by a renderer when it draws."""

    num_epochs: int
    num_batches: int = 0  # in a training epoch
    num_items: int = 0
    epoch: int = 1
    batch: int = 0
    updates: int = 0
    first_epoch: int = 1  # of this process, and how many of its batches were trained before
    first_batch: int = 0
    new_batches: int = 0  # since the last log point
    new_updates: int = 0
    waited: float = 0.0  # seconds, for these batches
    num_updates: int = 0  # of the whole run; skipped updates are not counted
    first_updates: int = 0  # completed before this process
    latest: dict[str, dict[str, float]] = field(default_factory=dict)  # by split
    measured: dict[str, int] = field(default_factory=dict)  # updates before the latest values

    def start_epoch(self, epoch: int, batch: int) -> None:
        """Moves to a place in an epoch, both counted from 0."""
        self.epoch, self.batch = epoch + 1, batch

    def close_window(self) -> None:
        """Starts counting from a log point."""
        self.new_batches = self.new_updates = 0
        self.waited = 0.0

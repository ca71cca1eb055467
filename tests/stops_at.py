"""An interrupter that stops a run at one chosen place."""

from andiron.interrupter import Interrupter


class StopsAt(Interrupter):
    """Stops after `updates`, before one batch of a pass over `split`; None matches any."""

    is_watched = True

    def __init__(self, split: str, updates: int | None = None, batch: int | None = None):
        super().__init__()
        self.split, self.updates, self.batch = split, updates, batch

    def at(self, split: str, updates: int, batch: int) -> bool:
        if split == self.split and self.updates in (None, updates) and self.batch in (None, batch):
            self.stop(f"at {split}, update {updates}, batch {batch}")
        return super().at(split, updates, batch)

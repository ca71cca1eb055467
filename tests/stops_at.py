"""An interrupter that stops a run at one chosen place."""

import contextlib
from collections.abc import Iterator
from unittest import mock

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


@contextlib.contextmanager
def stopping(updates: int, seed: int | None = None) -> Iterator[None]:
    """Runs of `train.py` in this process stop after `updates`: all, or only runs with the seed."""
    from andiron.shell.training import train_run

    whole = train_run.train

    def train(config, run_dir, record, interrupter, trusted, share):
        if seed in (None, config.seed):
            interrupter = StopsAt("train", updates=updates)
        return whole(config, run_dir, record, interrupter, trusted)

    with mock.patch.object(train_run, "train", train):
        yield

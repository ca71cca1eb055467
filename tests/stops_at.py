"""An interrupter that stops a run at one chosen place."""

import contextlib
from collections.abc import Iterator
from unittest import mock

from andiron.interrupter import Interrupter


def stops_at(place: str, after: int | None = None, before: int | None = None) -> Interrupter:
    """Stops after updates, before one batch of a pass over a split; None matches any."""

    def rule(split: str, updates: int, batch: int) -> str | None:
        is_there = split == place and after in (None, updates) and before in (None, batch)
        return f"at {split}, update {updates}, batch {batch}" if is_there else None

    return Interrupter(stop_rule=rule)


@contextlib.contextmanager
def stopping(updates: int, seed: int | None = None) -> Iterator[None]:
    """Runs of `train.py` in this process stop after `updates`: all, or only runs with the seed."""
    from andiron.shell.training import train_run

    whole = train_run.train

    def train(config, run_dir, record, interrupter, trusted, share):
        if seed in (None, config.seed):
            interrupter = stops_at("train", updates)
        return whole(config, run_dir, record, interrupter, trusted)

    with mock.patch.object(train_run, "train", train):
        yield

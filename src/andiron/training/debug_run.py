"""`debug=true`: a few batches of everything, with checks on, and a resume compared bit for bit."""

import dataclasses
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.config.schema import Train
from andiron.interrupter import Interrupter
from andiron.plain import readable

STOPPED_AFTER = 2  # updates, before the resume
Run = Callable[[Train, Path, Interrupter], None]
log = logging.getLogger("andiron")


class _StopsEarly(Interrupter):
    """Stops a run after its second update, or where the user's own interrupter asks to."""

    is_watched = True

    def __init__(self, users: Interrupter):
        super().__init__()
        self._users = users

    def at(self, split: str, updates: int, batch: int) -> bool:
        if self._users.asked or (split == "train" and updates >= STOPPED_AFTER):
            self.stop("stopped by debug=true, to be resumed")
        return super().at(split, updates, batch)


def run(config: Train, run_dir: Path, train: Run, users: Interrupter) -> None:
    """Trains, validates, tests and saves on a few batches, then again with a stop and a resume.

    Both runs are in folders of `run_dir`. Gradients are checked by torch's anomaly detection, and
    an update that is not finite ends the run.
    Raises: AndironError if the resumed run has other bits; what `train` raises.
    """
    small = shortened(config)
    log.info("debug: two epochs on a few batches, into %s", run_dir)
    straight, resumed = run_dir / "straight", run_dir / "resumed"
    with _gradients_watched():
        train(small, straight, users)
        if config.checkpoint is None:
            log.info("debug: everything ran; without checkpoints, resuming was not tried")
            return
        again = dataclasses.replace(small, render=None)
        try:
            train(again, resumed, _StopsEarly(users))
        except errors.Interrupted:
            if users.asked:
                raise users.asked from None
        train(dataclasses.replace(again, resume="auto"), resumed, users)
    if found := _differences(config, straight, resumed):
        raise errors.AndironError(
            f"debug: the stopped and resumed run differs from the uninterrupted one: "
            f"{readable.joined(found, 1)}; look for random numbers or state that is not saved"
        )
    log.info("debug: everything ran, and a stopped and resumed run has the same bits")


def shortened(config: Train) -> Train:
    """The configuration for two epochs with every log point; the data are cut where it is built."""
    short = dataclasses.replace(config, num_epochs=2, num_updates=None)
    return dataclasses.replace(
        short, log_every=1, validate_every="1epochs", on_nonfinite="stop"
    )


def _gradients_watched() -> AbstractContextManager[None]:
    """A context in which a backward pass that gives NaN is an error."""
    from torch import autograd  # not before the configuration is checked

    watched: AbstractContextManager[None] = autograd.set_detect_anomaly(True)
    return watched


def _differences(config: Train, straight: Path, resumed: Path) -> list[Any]:
    from andiron.assembly import configured_store  # both import torch
    from andiron.run import bit_comparison

    stores = partial(configured_store.store, config)
    return bit_comparison.compare(straight, resumed, stores)

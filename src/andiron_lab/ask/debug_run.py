"""`debug=true`: a few batches of everything, with checks on, and a resume compared bit for bit."""

import dataclasses
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain import readable
from andiron.shell.config.schema import Train

STOPPED_AFTER = 2  # updates, before the resume
log = logging.getLogger("andiron")


def run(config: Train, run_dir: Path, train: Callable[..., None], outer: Interrupter) -> None:
    """Trains, validates, tests and saves on a few batches, then again with a stop and a resume.

    Both runs are in folders of `run_dir`. Torch's anomaly detection checks the gradients, and a
    non-finite update ends the run.
    Raises: AndironError if the resumed run has other bits; any error of `train`.
    """
    from torch import autograd  # not before the configuration is checked

    small = shortened(config)
    log.info("debug: two epochs on a few batches, into %s", run_dir)
    straight, resumed = run_dir / "straight", run_dir / "resumed"
    with autograd.set_detect_anomaly(True):
        train(small, straight, interrupter=outer)
        if config.checkpoint is None:
            log.info("debug: everything ran; without checkpoints, resuming was not tried")
            return
        again = dataclasses.replace(small, render=None)

        def stop_early(split: str, updates: int, batch: int) -> str | None:
            is_late = split == "train" and updates >= STOPPED_AFTER
            return "stopped by debug=true, to be resumed" if is_late or outer.asked else None

        try:
            train(again, resumed, interrupter=Interrupter(stop_rule=stop_early))
        except errors.Interrupted:
            if outer.asked:
                raise outer.asked from None
        train(dataclasses.replace(again, resume="auto"), resumed, interrupter=outer)
    _compare_bits(config, straight, resumed)


def _compare_bits(config: Train, straight: Path, resumed: Path) -> None:
    """Logs that both runs have the same bits, or why that is not known. Raises: AndironError."""
    from andiron.shell.assembly import configured_store, devices
    from andiron_lab.ask import bit_comparison

    stores = partial(configured_store.store, config.checkpoint)
    if differences := bit_comparison.compare(straight, resumed, stores):
        problem = "the stopped and resumed run differs from the uninterrupted one: "
        problem += readable.joined(differences, 1)
        if devices.resolve(config.device).type != "cpu" and not config.deterministic:
            why = "a GPU may add in varying order: debug=true deterministic=true compares the bits"
            log.warning("debug: everything ran; %s; %s", problem, why)
            return
        raise errors.AndironError(
            f"debug: {problem}; look for random numbers or state that is not saved"
        )
    log.info("debug: everything ran, and a stopped and resumed run has the same bits")


def shortened(config: Train) -> Train:
    """The configuration for two epochs, logging every update; the build truncates the data."""
    short = dataclasses.replace(config, num_epochs=2, num_updates=None, max_time=None)
    return dataclasses.replace(
        short, log_every=1, validate_every="1epochs", valid_sets_every=None, on_nonfinite="stop"
    )

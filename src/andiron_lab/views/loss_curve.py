"""The loss of a short run whose learning rate grows, and the rate at which it falls fastest."""

import dataclasses
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from andiron.data import DataLoader
from andiron.learner import Learner
from andiron.optim import GroupedOptimizer
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, configured_learner
from andiron.shell.config.schema import Train
from andiron.writers import TensorBoardWriter

SMOOTHING = 0.9  # factor of the loss's exponential mean, whose start is bias-corrected
DIVERGED = 3.0  # times the smallest smoothed loss


def losses_by_update(
    config: Train, run_dir: Path, schedule: Callable[[int], float], updates: int
) -> list[float]:
    """The losses of `updates` updates under this schedule; fewer if the loss diverges."""
    config = dataclasses.replace(
        config, checkpoint=None, render=None, averages=None, observers=None, max_time=None
    )
    config = dataclasses.replace(config, on_nonfinite="skip", log_every=1, test_weights="last")
    built = components.build(config)
    groups = (
        dataclasses.replace(group, schedule=None) for group in built.optimizer.groups.values()
    )
    optimizer = GroupedOptimizer(built.model, [*groups])
    built = dataclasses.replace(built, schedule=schedule, optimizer=optimizer)
    writers = {"tensorboard": TensorBoardWriter(RunFolder(run_dir).tensorboard)}
    losses = []
    with (
        configured_learner.learner(config, built, run_dir, writers) as learner,
        learner.training(built.train),
    ):
        for batches in _endless_batches(learner, built.train):
            if learner.updates == updates or not learner.update(batches, built.train):
                break
            losses.append(learner.metric_log.latest["train"]["loss"])
            curve = smoothed(losses)
            if not curve[-1] < DIVERGED * min(curve):
                break
    return losses


def _endless_batches(learner: Learner, train: DataLoader) -> Iterator[list[Any]]:
    """The batches of each update, epoch after epoch without end."""
    while True:
        yield from learner.batches_of_epoch(train)
        learner.position.next_epoch()


def smoothed(losses: Sequence[float]) -> list[float]:
    """The bias-corrected exponential moving average of the losses."""
    mean, curve = 0.0, []
    for number, loss in enumerate(losses, 1):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        curve.append(mean / (1 - SMOOTHING**number))
    return curve


def suggestion(rates: Sequence[float], losses: Sequence[float]) -> float:
    """The rate where the smoothed loss falls fastest over log(lr), before its minimum.

    The first tenth of the curve is left out: its mean covers few batches and is mostly noise.
    """
    curve = smoothed(losses)
    first = 1 + len(curve) // 10
    end = max(curve.index(min(curve)), first + 1) + 1  # behind the minimum it may be infinite
    slopes = np.gradient(curve[:end], np.log(rates[:end]))
    return rates[first + int(slopes[first:-1].argmin())]


def picture(rates: Sequence[float], losses: Sequence[float], best: float) -> bytes:
    """The losses over the learning rates as a PNG."""
    from matplotlib.figure import Figure  # half a second of imports

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(rates, losses, color="0.75", label="loss of the batch")
    axes.plot(rates, smoothed(losses), label="smoothed")
    axes.axvline(best, color="C1", linestyle="--", label=f"falls fastest: lr={best:.2g}")
    axes.set(xscale="log", xlabel="learning rate", ylabel="loss")
    axes.legend()
    figure.savefig(written := io.BytesIO(), dpi=120, format="png")
    return written.getvalue()

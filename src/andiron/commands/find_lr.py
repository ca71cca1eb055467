"""The learning-rate range test: one short run whose learning rate grows until the loss diverges."""

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from andiron import errors, files
from andiron.build import components, configured_learner
from andiron.commands import command_line, process
from andiron.config.schema import Train
from andiron.data import DataLoader
from andiron.learner import Learner
from andiron.optim import GroupedOptimizer
from andiron.run_folder import RunFolder
from andiron.writers import TensorBoardWriter

SMOOTHING = 0.9  # factor of the loss's exponential mean, whose start is bias-corrected
DIVERGED = 3.0  # times the smallest smoothed loss
FEWEST_POINTS = 10


@dataclasses.dataclass(frozen=True)
class Range:
    """Learning rates from `first` to `last` in so many updates, by a constant factor."""

    first: float
    last: float
    updates: int

    def __call__(self, updates: int) -> float:
        return self.first * math.pow(self.last / self.first, updates / max(self.updates - 1, 1))


def find_lr(config: Train, run_dir: Path, tried: Range) -> None:
    """Runs the test; writes find_lr.json, find_lr.png and a TensorBoard curve into `run_dir`.

    Source: Smith 2017, arXiv:1506.01186, section 3.3.
    Raises: ConfigError if the loss diverged before there were enough points.
    """
    config = dataclasses.replace(
        config, checkpoint=None, render=None, averages=None, on_nonfinite="skip", log_every=1,
        test_weights="last",
    )
    built = components.build(config)
    groups = [dataclasses.replace(each, schedule=None) for each in built.optimizer.groups.values()]
    optimizer = GroupedOptimizer(built.model, groups)
    built = dataclasses.replace(built, schedule=tried, optimizer=optimizer)
    writers = {"tensorboard": TensorBoardWriter(RunFolder(run_dir).tensorboard)}
    with configured_learner.learner(config, built, run_dir, writers) as learner:
        losses = _losses(learner, built.train, tried)
    rates = [tried(number) for number in range(len(losses))]
    if len(losses) < FEWEST_POINTS:
        raise errors.ConfigError(
            [
                f"--first={tried.first}: the loss diverged after {len(losses)} updates; start lower"
            ]
        )
    best = suggestion(rates, losses)
    files.write_json(run_dir / "find_lr.json", {"lr": best, "rates": rates, "losses": losses})
    draw(rates, losses, best, run_dir / "find_lr.png")
    print(
        f"lr={best:.2g}: where the smoothed loss falls fastest, of {len(rates)} rates from "
        f"{rates[0]:.2g} to {rates[-1]:.2g}\npicture: {run_dir / 'find_lr.png'}"
    )


def _losses(learner: Learner, train: DataLoader, tried: Range) -> list[float]:
    """The loss of each update until the range is completed or the smoothed loss has diverged."""
    losses: list[float] = []
    with learner.training(train):
        for batches in _endless(learner, train):
            if learner.updates == tried.updates or not learner.update(batches, train):
                break
            losses.append(learner.metric_log.latest["train"]["loss"])
            curve = smoothed(losses)
            if not curve[-1] < DIVERGED * min(curve):
                break
    return losses


def _endless(learner: Learner, train: DataLoader) -> Iterator[list[Any]]:
    """Groups of batches for one update after another, epoch after epoch."""
    while True:
        yield from learner.batches_of_epoch(train)
        learner.position.next_epoch()


def smoothed(losses: Sequence[float]) -> list[float]:
    """The bias-corrected exponential mean of the losses up to each."""
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


def draw(rates: Sequence[float], losses: Sequence[float], best: float, path: Path) -> None:
    """Writes a picture of the losses over the learning rates."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(rates, losses, color="0.75", label="loss of the batch")
    axes.plot(rates, smoothed(losses), label="smoothed")
    axes.axvline(best, color="C1", linestyle="--", label=f"falls fastest: lr={best:.2g}")
    axes.set(xscale="log", xlabel="learning rate", ylabel="loss")
    axes.legend()
    figure.savefig(path, dpi=120)


@process.command
def main(conf_dir: Path | None = None) -> int:
    """Runs `python scripts/find_lr.py`; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Learning-rate range test; further arguments are overrides, as of train.py.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--first", type=float, default=1e-6, help="smallest rate")
    parser.add_argument("--last", type=float, default=10.0, help="largest rate")
    parser.add_argument("--updates", type=int, default=200, help="number of rates to try")
    options, overrides = parser.parse_known_args(sys.argv[1:])
    tried = Range(**vars(options))
    if not 0 < tried.first < tried.last or tried.updates < FEWEST_POINTS:
        parser.error(
            f"--first {tried.first} --last {tried.last} --updates {tried.updates}: should be "
            f"0 < first < last, and at least {FEWEST_POINTS} updates"
        )
    return command_line.main(
        lambda config, run_dir, record: find_lr(config, run_dir, tried),
        conf_dir,
        command_line.in_folder(overrides, "find_lr"),
    )

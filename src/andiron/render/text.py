"""A run's state as text, for every renderer.

>>> values({"loss": 0.5, "lr/base": 1e-3})
'loss 0.5000'
"""

import itertools

from andiron.plain.readable import number, printable
from andiron.progress import Progress
from andiron.protocols import Values


SLOW_UPDATES = 10  # the first ones of a process: they allocate, compile and choose kernels


class TimeLeft:
    """Estimates the time left from the speed since the slow first updates of the process."""

    def __init__(self) -> None:
        self._since: tuple[int, float] | None = None  # updates and seconds

    def seconds(self, progress: Progress, elapsed: float) -> float | None:
        """Seconds left, after `elapsed` seconds; None before the speed is known."""
        updates, first = progress.updates, progress.first_updates
        if self._since is None and updates > first:
            is_slow = updates - first < SLOW_UPDATES
            self._since = (updates, elapsed) if is_slow else (first, 0.0)
        if self._since is None or updates == self._since[0]:
            return None
        before, seconds = self._since
        return (elapsed - seconds) * (progress.num_updates - updates) / (updates - before)


def values(measured: Values) -> str:
    """`loss 0.1234  accuracy 0.9876`, without non-metrics (`lr/base`, `time/...`)."""
    return printable(
        "  ".join(f"{name} {number(value)}" for name, value in measured.items() if "/" not in name)
    )


def line(progress: Progress, seconds: float, columns: int | None = None) -> str:
    """`epoch 3/10  update 63  train loss ...  |  valid loss ...  |  90,123 samples/s`.

    To fit `columns`, the speed is left out, then the splits share a column for each metric.
    """
    width = len(str(progress.num_epochs))
    before = progress.first_batch if progress.epoch == progress.first_epoch else 0
    samples = progress.num_items * (1 - before / max(progress.num_batches, 1))
    speed = samples / seconds if seconds else 0.0
    place = f"epoch {progress.epoch:>{width}}/{progress.num_epochs}  update {progress.updates:>5}  "
    whole = f"{place}{splits(progress)}"
    with_speed = f"{whole}  |  {speed:,.0f} samples/s"
    if columns is None or len(with_speed) <= columns:
        return with_speed
    if len(whole) <= columns:
        return whole
    place += printable("|".join(progress.latest)) + " "
    return place + tight_splits(progress, columns - len(place))


def splits(progress: Progress) -> str:
    """The latest values of every split that has any."""
    latest = dict(progress.latest)  # a copy, for a thread that draws
    shown = {split: values(measured) for split, measured in latest.items()}
    parts = (f"{split} {metrics}" for split, metrics in shown.items() if metrics)
    return printable("  |  ".join(parts))


def tight_splits(progress: Progress, columns: int) -> str:
    """`loss 0.1234|0.2345  mae 2.3456|2.4567  …`, as many metrics as fit, at least one."""
    latest = progress.latest
    names = [name for name in dict.fromkeys(itertools.chain(*latest.values())) if "/" not in name]
    line = ""
    for name in names:
        sides = (number(side[name]) if name in side else "-" for side in latest.values())
        longer = f"{line}  {printable(name)} {'|'.join(sides)}".removeprefix("  ")
        if line and len(longer) + 3 * (name != names[-1]) > columns:
            return f"{line}  …"
        line = longer
    return line

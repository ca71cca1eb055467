"""A run's state, and its summary, as text for every renderer.

>>> values({"loss": 0.5, "lr/base": 1e-3})
'loss 0.5000'
"""

from typing import NamedTuple

from andiron.plain.plain_values import Named, Plain
from andiron.plain.readable import duration, number, printable
from andiron.progress import Progress
from andiron.protocols import Values

SLOW_UPDATES = 10  # the first ones of a process: they allocate, compile and choose kernels
METRICS = "split", "metric", "best", "epoch of best", "last"


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


def line(progress: Progress, seconds: float) -> str:
    """`epoch 3/10  update 63  train loss ...  |  valid loss ...  |  90,123 samples/s`."""
    width = len(str(progress.num_epochs))
    before = progress.first_batch if progress.epoch == progress.first_epoch else 0
    samples = progress.num_items * (1 - before / max(progress.num_batches, 1))
    speed = samples / seconds if seconds else 0.0
    place = f"epoch {progress.epoch:>{width}}/{progress.num_epochs}  update {progress.updates:>5}  "
    shown = splits(progress, progress.updates), f"{speed:,.0f} samples/s"
    return place + "  |  ".join(filter(None, shown))


def splits(progress: Progress, updates: int | None = None) -> str:
    """The latest values of every split that has any, or of those measured after `updates`."""
    latest = dict(progress.latest)  # a copy, for a thread that draws
    shown = {split: values(measured) for split, measured in latest.items()
             if updates is None or progress.measured.get(split, updates) == updates}  # fmt: skip
    parts = (f"{split} {metrics}" for split, metrics in shown.items() if metrics)
    return printable("  |  ".join(parts))


class SummaryLines(NamedTuple):
    """Rows of cells: metrics, below `METRICS`, and classes; and the lines beside them."""

    title: str
    metrics: list[list[str]]
    classes: list[list[str]]
    lines: list[str]
    place: str  # how long the run trained, and its folder, if any


def summary_lines(summary: Named) -> SummaryLines:
    """The title, metrics, worst classes and further lines."""
    size = f"{summary['num_parameters']:,} parameters, {summary['updates']:,} updates"
    weights = "; ".join(
        f"{'tested' if split == 'test' else split} weights: {name}"
        for split, name in summary.get("weights", {}).items()
    )
    changes = [f"{name}: {text}" for name, text in summary.get("changes", {}).items()]
    place = f"trained in {duration(summary['seconds'])}"
    if "run_dir" in summary:
        place += f"; everything about the run is in\n  {summary['run_dir']}"
    return SummaryLines(
        f"{summary['model']}, {size}",
        _metric_rows(summary["metrics"]),
        [_class_row(scores) for scores in summary.get("worst_classes") or ()],
        [*filter(None, [weights]), *changes],
        place,
    )


def _metric_rows(rows: list[Plain]) -> list[list[str]]:
    """Without parts such as recall/cat, unless their metric has nothing but parts.

    A metric without a best value has a dash.
    """
    whole = {(row["split"], row["metric"]) for row in rows}
    return [
        [row["split"], row["metric"], *_best(row), number(row["last"])]
        for row in rows
        if "/" not in row["metric"]
        or (row["split"], row["metric"].partition("/")[0]) not in whole
    ]  # fmt: skip


def _best(row: Named) -> list[str]:
    """The best value and its epoch."""
    is_known = row["best"] == row["best"]  # NaN is not equal to itself
    return [number(row["best"]), str(row["epoch_of_best"])] if is_known else ["-", "-"]


def _class_row(scores: Named) -> list[str]:
    taken = ", ".join(f"{name} ({count})" for name, count in scores["taken_for"].items())
    return [scores["class"], f"{scores['samples']:,}", number(scores["recall"]), taken]

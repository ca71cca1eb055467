"""The content of a run's summary, which the terminal and a notebook lay out."""

from typing import NamedTuple

from andiron.plain.plain_values import Named, Plain
from andiron.plain.readable import duration, number

METRICS = "split", "metric", "best", "epoch of best", "last"
CLASSES = "class", "samples", "recall", "predicted as"


class SummaryLines(NamedTuple):
    """Rows of cells below `METRICS` and `CLASSES`, and the lines beside them."""

    title: str
    metrics: list[list[str]]
    classes: list[list[str]]
    lines: list[str]
    place: str  # how long the run trained, and its folder, if any


def content(summary: Named) -> SummaryLines:
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

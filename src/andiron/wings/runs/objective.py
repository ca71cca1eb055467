"""The metric values by which a sweep compares its runs."""

from collections.abc import Mapping

from andiron.plain.plain_values import is_finite
from andiron.run_folder import RunFolder
from andiron.wings.runs import run_list, run_reader


def values(
    folder: RunFolder, names: str | list[str] | None, directions: Mapping[str, str] | None = None
) -> float | list[float | None] | None:
    """The `value` of one name, or of each name in a list."""
    if isinstance(names, list):
        return [value(folder, name, directions) for name in names]
    return value(folder, names, directions)


def value(
    folder: RunFolder, name: str | None, directions: Mapping[str, str] | None = None
) -> float | None:
    """The run's best value of a metric such as `valid/accuracy`; `valid/accuracy.last` is the last.

    Without a name, the metric that the run's checkpoints follow; None if they follow none.
    `directions` are for an unfinished run, which has not recorded its own.
    Raises: SelectionError if the run has not measured the metric.
    """
    (run,) = run_reader.read([folder], directions)
    metric = run.followed if name is None else run_list.metric_of([run], name)
    number = None if metric is None else run.value(metric)
    return float(number) if is_finite(number) else None

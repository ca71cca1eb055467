"""The numbers by which a sweep compares its runs."""

from collections.abc import Mapping

from andiron.comparison import recorded_run, run_list, run_values
from andiron.plain.plain_values import is_finite
from andiron.run_folder import RunFolder


def values(
    folder: RunFolder, names: str | list[str] | None, directions: Mapping[str, str] | None = None
) -> float | list[float | None] | None:
    """The `value` of one name, or of each of several."""
    if isinstance(names, list):
        return [value(folder, name, directions) for name in names]
    return value(folder, names, directions)


def value(
    folder: RunFolder, name: str | None, directions: Mapping[str, str] | None = None
) -> float | None:
    """The best value that the run reached of a metric such as `valid/accuracy`.

    `directions` of metrics are for a run that is not done, and has none on record.

    `valid/accuracy.last` is its last. Without a name it is what the run's checkpoints follow; None
    if they follow nothing.
    Raises: SelectionError if the run has not measured the metric.
    """
    (run,) = recorded_run.read([folder], directions)
    metric = run.followed if name is None else run_list.metric_of([run], name)
    found = None if metric is None else run_values.value_of(run, metric)
    return float(found) if is_finite(found) else None

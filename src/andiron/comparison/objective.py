"""The numbers by which a sweep compares its runs."""

from andiron.comparison import recorded_run, run_list, run_values
from andiron.plain_values import is_finite
from andiron.run_folder import RunFolder


def values(
    folder: RunFolder, names: str | list[str] | None
) -> float | list[float | None] | None:
    """The `value` of one name, or of each of several."""
    if isinstance(names, list):
        return [value(folder, name) for name in names]
    return value(folder, names)


def value(folder: RunFolder, name: str | None) -> float | None:
    """The best value that the run reached of a metric such as `valid/accuracy`.

    `valid/accuracy.last` is its last. Without a name it is what the run's checkpoints follow; None
    if they follow nothing.
    Raises: SelectionError if the run has not measured the metric.
    """
    (run,) = recorded_run.read([folder])
    metric = run.followed if name is None else run_list.metric_of([run], name)
    found = None if metric is None else run_values.value_of(run, metric)
    return float(found) if is_finite(found) else None

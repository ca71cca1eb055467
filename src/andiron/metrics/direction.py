"""Which way each metric improves, for all that wait until one does."""

from collections.abc import Iterable, Mapping

from andiron import errors
from andiron.protocols import Metric, Statistic


def of(metrics: Iterable[Metric | Statistic]) -> dict[str, str]:
    """`highest` or `lowest` by the metric's name."""
    return {metric.name: "highest" if metric.higher_is_better else "lowest" for metric in metrics}


def own(directions: Mapping[str, str], metric: str) -> str | None:
    """The direction of a metric, or of the one it is a part of (recall/cat of recall); None if there is no such metric."""
    return directions.get(metric, directions.get(metric.partition("/")[0]))


def check(waiting: Mapping[str, tuple[str, str]], directions: Mapping[str, str]) -> None:
    """Refuses what waits for a metric to get worse; `waiting` has (metric, direction) by option.

    Raises: ConfigError with all of them.
    """
    problems = [
        f"{option}.direction={direction}: {metric} is better the other way; leave it null, or say {own(directions, metric)}"
        for option, (metric, direction) in waiting.items()
        if own(directions, metric) not in (None, direction)
    ]
    if problems:
        raise errors.ConfigError(problems)

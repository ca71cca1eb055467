"""The direction of each metric, and a check that a split measures it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from andiron import errors
from andiron.plain import improvement
from andiron.protocols import Metric


def directions_of(metrics: Iterable[Metric]) -> dict[str, str]:
    """`highest` or `lowest` by the metric's name; without the metrics that have no direction."""
    return {
        metric.name: "highest" if metric.higher_is_better else "lowest"
        for metric in metrics
        if metric.higher_is_better is not None
    }


def by_split(
    training: Sequence[Metric],
    validation: Sequence[Metric],
    sets: Collection[str],
    averages: Iterable[str],
) -> dict[str, Sequence[Metric]]:
    """The metrics of each split; `averages` of the weights are measured on all validation sets."""
    averaged = (f"{name}-{average}" for average in averages for name in sets)
    return {"train": training, **dict.fromkeys([*sets, *averaged], validation)}


def check_measured(
    waiting: Mapping[str, tuple[str, str, str]],
    measured: Mapping[str, Sequence[Metric]],
) -> None:
    """Refuses options that use a metric not measured on their split, or in the wrong direction,
    and metrics of one split that share a name: the value of one would stand for both.

    `waiting` has (metric, split, direction) by option; `measured` has the metrics of each split,
    `valid-<average>` included. A part such as recall/cat belongs to its metric.
    Raises: ConfigError listing all.
    """
    every = {name: [metric.name for metric in metrics] for name, metrics in measured.items()}
    shared = {name for names in every.values() for name in names if names.count(name) > 1}
    problems = [
        f"metrics: several are named {name!r}; give each a `name` of its own"
        for name in sorted(shared)
    ]
    for option, (metric, split, direction) in waiting.items():
        directions = directions_of(measured.get(split, ()))
        better = improvement.direction_of(metric, directions)
        if split not in measured:
            problems.append(
                f"{option}.split={split}: nothing is measured on it"
                f"{errors.nearest(split, measured)}; available: {', '.join(measured)}"
            )
        elif better is None and metric.partition("/")[0] in every[split]:
            why = "no value of it is best; give it higher_is_better=true or false"
            problems.append(f"{option}.metric={metric}: {why}")
        elif better is None:
            problems.append(
                f"{option}.metric={metric}: not measured on {split}"
                f"{errors.nearest(metric, directions)}; available: "
                f"{', '.join(directions) or 'nothing'}"
            )
        elif better != direction:
            problems.append(
                f"{option}.direction={direction}: {metric} is better the other way; leave it null, "
                f"or give {better}"
            )
    if problems:
        raise errors.ConfigError(problems)

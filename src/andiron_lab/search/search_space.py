"""Converts Hydra's overrides (intervals, ranges and choices) to optuna's distributions.

>>> for text in "tag(log,interval(1e-4,1e-1))", "int(interval(1,5))", "range(1,8,3)", "adam,sgd":
...     print(distribution(OverridesParser.create().parse_override(f"x={text}")))
FloatDistribution(high=0.1, log=True, low=0.0001, step=None)
IntDistribution(high=5, log=False, low=1, step=1)
IntDistribution(high=7, log=False, low=1, step=3)
CategoricalDistribution(choices=('adam', 'sgd'))
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from andiron import errors

Values = Mapping[str, object]  # by option
Kind = CategoricalDistribution | FloatDistribution | IntDistribution


@dataclass(frozen=True)
class SearchSpace:
    """The searched options, and the overrides that all jobs share."""

    options: dict[str, Kind]
    fixed: tuple[str, ...]

    def overrides(self, chosen: Values) -> list[str]:
        """The overrides of the job with these values."""
        return [*self.fixed, *(f"{option}={_text(value)}" for option, value in chosen.items())]

    def corners(self) -> list[list[str]]:
        """The overrides of jobs that cover every choice and both ends of every interval."""
        columns = {option: _ends(kind) for option, kind in self.options.items()}
        longest = max(map(len, columns.values()))
        return [
            self.overrides(
                {option: ends[min(row, len(ends) - 1)] for option, ends in columns.items()}
            )
            for row in range(longest)
        ]


def search_space(overrides: Iterable[str], loader: ConfigLoader | None) -> SearchSpace:
    """The space of these overrides; the last one of an option counts.

    Raises: ConfigError with all overrides that cannot be searched.
    """
    parser = OverridesParser.create(config_loader=loader)
    options: dict[str, Kind] = {}
    fixed: dict[str, str] = {}
    problems = []
    for text in overrides:
        try:
            override = parser.parse_override(text)
            key = override.get_key_element()
            kind = distribution(override) if override.is_sweep_override() else None
            options.pop(key, None)
            fixed.pop(key, None)
            if kind is None:
                fixed[key] = text
            else:
                options[key] = kind
        except (HydraException, ValueError, TypeError) as error:
            problems.append(f"{text}: cannot be searched: {str(error).splitlines()[0]}")
    if not problems and not options:
        problems.append(
            "hydra.sweeper: no option is searched; give one a range, such as "
            "'lr=tag(log,interval(1e-4,1e-1))' or optimizer=adam,sgd"
        )
    if problems:
        raise errors.ConfigError(problems)
    return SearchSpace(options, tuple(fixed.values()))


def distribution(override: Override) -> Kind:
    """The distribution of an override's values; a range excludes its end, as in Hydra.

    Raises: ValueError for an empty range, or a tag that does not apply.
    """
    sweep = override.value()
    tags = set(getattr(sweep, "tags", ()))
    match sweep:
        case IntervalSweep():
            fitting = {"log", "int"}
        case RangeSweep(start=int(), step=1 | -1):
            fitting = {"log"}
        case _:
            fitting = set()
    if tags - fitting:
        allowed = "log and int are tags of an interval, log of a range of integers with step 1"
        raise ValueError(f"tag {', '.join(sorted(tags))}: {allowed}")
    if isinstance(sweep, IntervalSweep):
        return _of_interval(sweep, is_log="log" in tags, is_int="int" in tags)
    if isinstance(sweep, RangeSweep):
        return _of_range(sweep, is_log="log" in tags)
    return CategoricalDistribution(list(dict.fromkeys(override.sweep_string_iterator())))


def _of_interval(interval: Any, *, is_log: bool, is_int: bool) -> Kind:
    low, high = interval.start, interval.end
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("an interval needs two finite ends")
    if is_int or isinstance(low, int):
        return IntDistribution(math.ceil(low), math.floor(high), log=is_log)
    return FloatDistribution(low, high, log=is_log)


def _of_range(sweep: RangeSweep, *, is_log: bool) -> Kind:
    values = sorted(sweep.range())
    if not values:
        raise ValueError("the range is empty")
    low, high, step = values[0], values[-1], abs(sweep.step)
    if isinstance(low, int):
        return IntDistribution(low, high, log=is_log, step=int(step))
    return FloatDistribution(low, high, step=float(step))


def _ends(kind: Kind) -> list[object]:
    if isinstance(kind, CategoricalDistribution):
        return list(kind.choices)
    return [kind.low, kind.high]


def _text(value: object) -> str:
    if isinstance(value, float):
        return repr(float(f"{value:.12g}"))  # 0.3, not 0.30000000000000004 from steps of 0.1
    return str(value)

"""Whether two configurations or two models differ: tests, intervals, seeds needed; plain numbers.

>>> difference = by_seed({0: 0.90, 1: 0.92, 2: 0.91}, {0: 0.94, 1: 0.95, 2: 0.95})
>>> difference.test, round(difference.value, 4), difference.is_shown, difference.seeds_needed()
('paired by seed', 0.0367, True, 4)
>>> holm([0.01, 0.04, 0.03])
[0.03, 0.06, 0.06]
"""

import bisect
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from statistics import fmean, variance
from typing import Any

from andiron import errors
from andiron.wings.runs.seed_groups import MOST

ALPHA = 0.05  # the rate of false claims, by convention
POWER = 0.9  # the probability that a true difference is shown
MOST_SEEDS = 1000  # that are worth predicting
ROUNDING = 1e-6  # of the values: a smaller spread is that of float32, not of seeds
LEAST_SAMPLES = 150  # of losses: of fewer, the rare large ones may all be missing
QUANTILES = 64  # of the true deviation, where it is estimated
PAIRED = "paired by seed"


@dataclass(frozen=True)
class Difference:
    """The mean of B minus the mean of A, with its 95 % interval.

    Without an interval nothing was tested, and p is 1: too few values, no spread between them, or
    some are NaN or infinite; these are left out of the mean.
    """

    value: float
    numbers: tuple[int, int]  # of finite values of A and of B
    test: str | None = None
    p: float = 1.0
    interval: tuple[float, float] | None = None
    deviation: float = 0.0  # of one value, between seeds; if paired, of one pair's difference
    degrees: float = 0.0  # of freedom, with which the deviation is known

    @property
    def is_shown(self) -> bool:
        """Whether a difference other than 0 is shown: by p, and by the interval."""
        outside = self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]
        return outside and self.p <= ALPHA

    def seeds_needed(self, size: float | None = None) -> int | None:
        """The seeds a side that show a true difference of `size` with a probability of `POWER`.

        Without `size`, of the value found. None for more than `MOST_SEEDS`, also where too few
        seeds are known to predict it.
        """
        if not self.deviation:
            return None
        signal = abs(self.value if size is None else size) / self.deviation
        numbers = range(2, MOST_SEEDS + 1)
        place = bisect.bisect_left(numbers, POWER, key=lambda seeds: self._power(signal, seeds))
        return numbers[place] if place < len(numbers) else None

    def _power(self, signal: float, seeds: int) -> float:
        """P(a t-test over `seeds` a side shows a difference of `signal` estimated deviations).

        The mean over the true deviations that fit the estimated one, by noncentral t.
        """
        import numpy

        special, sides = library(), 2 - (self.test == PAIRED)
        quantiles = (numpy.arange(QUANTILES) + 0.5) / QUANTILES
        signals = signal * numpy.sqrt(special.chdtri(self.degrees, quantiles) / self.degrees)
        degrees, shifts = sides * (seeds - 1), signals * math.sqrt(seeds / sides)
        return float((1 - special.nctdtr(degrees, shifts, t_limit(degrees))).mean())


@cache
def library() -> Any:
    """The distributions of SciPy; raises DataError if it is missing."""
    try:
        from scipy import special  # 0.1 s; scipy.stats takes 0.7 s
    except ImportError as error:
        why = "a test of differences needs scipy: pip install andiron[lab]"
        raise errors.DataError(why) from error
    return special


def by_seed(
    a: Mapping[Hashable, float], b: Mapping[Hashable, float], others: Iterable[Sequence[float]] = ()
) -> Difference:
    """The difference of configuration B from A, by a metric's value for each seed.

    Paired if both have the same seeds; otherwise the wider of Welch's test and the one of equal
    noise, since Welch's claims too often for few seeds on one side. If a side has one seed or no
    side varies, with the noise of all groups, also of `others`, as if all were equally noisy.
    With a NaN or infinite value nothing is tested: the mean of the others would hide it.
    """
    sides = _finite(a.values()), _finite(b.values())
    numbers = len(sides[0]), len(sides[1])
    value = fmean(sides[1]) - fmean(sides[0]) if all(numbers) else math.nan
    if numbers != (len(a), len(b)) or not all(numbers):
        return Difference(value, numbers)
    pairs = [b[seed] - a[seed] for seed in a] if a.keys() == b.keys() else []
    welch, pooled = _welch(sides), noise(sides)
    least = ROUNDING * max(map(abs, sides[0] + sides[1]))
    for tests in (
        {PAIRED: noise([pairs])},
        {"Welch": welch, "equal noise": pooled} if welch[0] else {},
        {"noise of all groups": noise([*sides, *others])},
    ):
        result = [
            _by_t(value, numbers, test, *known) for test, known in tests.items() if known[0] > least
        ]
        if result:
            widest = min(result, key=lambda value: value.interval or ())
            return replace(widest, p=max(entry.p for entry in result))
    return Difference(value, numbers)


def _by_t(
    value: float, numbers: tuple[int, int], test: str, deviation: float, degrees: float
) -> Difference:
    """The t-test with Var(difference) = s^2 / n_a + s^2 / n_b; of pairs s^2 / n."""
    share = 1 / numbers[0] + (test != PAIRED) / numbers[1]
    error = deviation * math.sqrt(share)
    half = t_limit(degrees) * error
    p = 2 * float(library().stdtr(degrees, -abs(value / error)))
    return Difference(value, numbers, test, p, (value - half, value + half), deviation, degrees)


def by_sample(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The difference of model B from A, by their scores of the same samples, in the same order.

    McNemar's exact test for right and wrong (1 and 0). Otherwise the wider of the t-test of the
    pairs and the one corrected for their skewness g / sqrt(n), of at least `LEAST_SAMPLES`:
    T = t + g t^2 / 3 + g^2 t^3 / 27 + g / 6.
    Source: Hall 1992, on the removal of skewness by transformation, T_2.
    """
    pairs, number = [theirs - ours for ours, theirs in zip(a, b, strict=True)], len(a)
    numbers = len(_finite(a)), len(_finite(b))
    value, is_right = fmean(pairs or [math.nan]), {*a, *b} <= {0, 1}
    if min(numbers) < max(number, 2 if is_right else LEAST_SAMPLES):
        return Difference(value, numbers)
    import numpy

    special, array = library(), numpy.array(pairs)
    error, limit = array.std(ddof=1) / math.sqrt(number), t_limit(number - 1)
    half = limit * error
    if is_right:
        fewer, more = sorted((pairs.count(-1), pairs.count(1)))
        p = min(1.0, 2 * float(special.bdtr(fewer, fewer + more, 0.5)))
        return Difference(value, numbers, "McNemar", p, (value - half, value + half))
    if not error:
        return Difference(value, numbers)
    skewness = float((((array - value) / array.std()) ** 3).mean()) / math.sqrt(number) or 1e-9
    t = value / error
    hall = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    p = 2 * float(special.stdtr(number - 1, -min(abs(t), abs(hall))))
    roots = numpy.cbrt(1 + skewness * (numpy.array([limit, -limit]) - skewness / 6)) - 1
    ends = value - error * roots * 3 / skewness
    interval = min(value - half, float(ends[0])), max(value + half, float(ends[1]))
    return Difference(value, numbers, "paired t", p, interval)


def noise(groups: Iterable[Sequence[float]]) -> tuple[float, float]:
    """The deviation between runs that differ only in the seed, and its degrees of freedom.

    s^2 = sum (n - 1) s_i^2 / sum (n - 1) over the groups; 0 without two finite values in a group.
    """
    groups = [values for group in groups if len(values := _finite(group)) > 1]
    degrees = sum(map(len, groups)) - len(groups)
    squares = sum((len(group) - 1) * variance(group) for group in groups)
    return math.sqrt(squares / max(degrees, 1)), degrees


def holm(p_values: Sequence[float]) -> list[float]:
    """The p of several comparisons, corrected: any false claim has at most the rate `ALPHA`.

    Source: Holm 1979, a sequentially rejective procedure.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    raised = (min(1.0, (len(order) - rank) * p_values[at]) for rank, at in enumerate(order))
    return [p for _, p in sorted(zip(order, accumulate(raised, max), strict=True))]


@cache
def t_limit(degrees: float) -> float:
    """The limit that |t| exceeds with probability `ALPHA`."""
    return float(library().stdtrit(degrees, 1 - ALPHA / 2))


def _welch(sides: Iterable[Sequence[float]]) -> tuple[float, float]:
    """The deviation in Welch's standard error and its degrees of freedom; 0 if there is none."""
    parts = [(variance(side) / len(side), len(side)) for side in sides if len(side) > 1]
    square = sum(part for part, _ in parts)
    if len(parts) < 2 or not square:
        return 0.0, 0.0
    degrees = square**2 / sum(part**2 / (number - 1) for part, number in parts)
    return math.sqrt(square / sum(1 / number for _, number in parts)), degrees


def _finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if abs(value) < MOST]

"""Whether two configurations or two models differ: tests, intervals, seeds needed; plain numbers.

>>> difference = by_seed({0: 0.90, 1: 0.92, 2: 0.91}, {0: 0.94, 1: 0.95, 2: 0.95})
>>> difference.test, round(difference.value, 4), difference.is_shown, difference.seeds_needed()
('paired by seed', 0.0367, True, 5)
>>> holm([0.01, 0.04, 0.03])
[0.03, 0.06, 0.06]
"""

import bisect
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import NormalDist, fmean, variance

ALPHA = 0.05  # the rate of false claims, by convention
POWER = 0.9  # the probability that a true difference is shown
MOST_SEEDS = 1000  # that are worth predicting
MOST = 1e150  # values whose squares are finite
ROUNDING = 1e-6  # of the values: a smaller spread is that of float32, not of seeds
RESAMPLES = 2000
STEPS = 2**60  # in which a probability is halved
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

        The deviations, as known now and in that test, have mean 1 - 1/(4 degrees) and variance
        1/(2 degrees) of the true one.
        Source: Johnson and Welch 1940, normal approximation of the noncentral t.
        """
        sides = 2 - (self.test == PAIRED)
        degrees = sides * (seeds - 1)
        signal, limit = signal * math.sqrt(seeds / sides), t_limit(degrees)
        mean = signal * (1 - 0.25 / self.degrees) - limit * (1 - 0.25 / degrees)
        spread = math.sqrt(1 + signal**2 / (2 * self.degrees) + limit**2 / (2 * degrees))
        return NormalDist().cdf(mean / spread)


def by_seed(
    a: Mapping[Hashable, float], b: Mapping[Hashable, float], others: Iterable[Sequence[float]] = ()
) -> Difference:
    """The difference of configuration B from A, by a metric's value for each seed.

    Paired if both have the same seeds, otherwise Welch's test; if a side has one seed or no side
    varies, with the noise of all groups, also of `others`, as if all were equally noisy.
    With a NaN or infinite value nothing is tested: the mean of the others would hide it.
    """
    sides = _finite(a.values()), _finite(b.values())
    numbers = len(sides[0]), len(sides[1])
    value = fmean(sides[1]) - fmean(sides[0]) if all(numbers) else math.nan
    if numbers != (len(a), len(b)) or not all(numbers):
        return Difference(value, numbers)
    pairs = [b[seed] - a[seed] for seed in a] if a.keys() == b.keys() else []
    both = sum(1 / number for number in numbers)  # Var(difference) = s^2 / n_a + s^2 / n_b
    known = {
        PAIRED: (1 / numbers[0], *noise([pairs])),
        "Welch": (both, *_welch(sides)),
        "noise of all groups": (both, *noise([*sides, *others])),
    }
    least = ROUNDING * max(map(abs, sides[0] + sides[1]))
    for test, (share, deviation, degrees) in known.items():
        if deviation > least:
            error = deviation * math.sqrt(share)
            p = _beta(degrees / (degrees + (value / error) ** 2), degrees / 2, 0.5)
            half = t_limit(degrees) * error
            interval = value - half, value + half
            return Difference(value, numbers, test, p, interval, deviation, degrees)
    return Difference(value, numbers)


def by_sample(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The difference of model B from A, by their scores of the same samples, in the same order.

    McNemar's exact test for right and wrong (1 and 0), otherwise a paired bootstrap.
    """
    pairs, number = [theirs - ours for ours, theirs in zip(a, b, strict=True)], len(a)
    numbers = len(_finite(a)), len(_finite(b))
    if min(numbers) < max(number, 2):
        return Difference(fmean(pairs or [math.nan]), numbers)
    import numpy  # 0.1 s

    generator, array = numpy.random.default_rng(0), numpy.array(pairs)
    drawn = (array[generator.integers(0, number, number)] for _ in range(RESAMPLES))
    means = [float(resample.mean()) for resample in drawn]
    low, high = map(float, numpy.quantile(means, (ALPHA / 2, 1 - ALPHA / 2)))
    tail = min(sum(mean <= 0 for mean in means), sum(mean >= 0 for mean in means))
    test, p = "paired bootstrap", min(1.0, 2 * (tail + 1) / (RESAMPLES + 1))
    if {*a, *b} <= {0, 1}:
        fewer, more = sorted((pairs.count(-1), pairs.count(1)))
        test, p = "McNemar", min(1.0, 2 * _beta(0.5, more, fewer + 1)) if more else 1.0
    return Difference(fmean(pairs), numbers, test, p, (low, high))


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
    numbers = range(1, STEPS)  # of steps in degrees / (degrees + t^2)
    step = bisect.bisect(numbers, ALPHA, key=lambda n: _beta(n / STEPS, degrees / 2, 0.5))
    return math.sqrt(degrees * (STEPS / numbers[step] - 1))


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


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b): P(|t| is larger), and binomial sums.

    I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) sum_k prod_{j < k} x (a + b + j) / (a + 1 + j).
    Source: DLMF 8.17.8.
    """
    if x > 0.5:  # converges faster
        return max(0.0, 1 - _beta(1 - x, b, a))
    place, term, total = 0, float(x > 0), float(x > 0)
    while term > total * 1e-17:
        term *= x * (a + b + place) / (a + 1 + place)
        total, place = total + term, place + 1
    log_scale = math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b)
    return math.exp(log_scale + a * math.log(x or 1) + b * math.log1p(-x)) * total

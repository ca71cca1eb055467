"""Counts false claims, missed differences and intervals that miss, of `andiron.wings.runs`.

    python -m proofs.false_claims --comparisons 400 [--runs 400]
    python -m proofs.false_claims --tables 4000

Each comparison draws two disjoint groups of 5 seeds of one configuration: a difference that is
shown is a false claim. They predict how many seeds show a difference of one percent; two new groups
of this number are drawn, one is shifted by it, and the difference should be found. The accuracies
are simulated; with `--runs`, this number of seeds of digits is trained once, and every comparison
draws its groups from this pool, no run twice. With `--tables`, the rates of false claims by numbers
of seeds and of samples.
"""

import argparse
import itertools
import math
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import torch

from andiron.data import DataLoaderBuilder, digits
from andiron.learner import LearnerBuilder
from andiron.metrics import Accuracy
from andiron.models import MLP
from andiron.optim import Optimizer
from andiron.tasks import Classifier
from andiron_lab.seeds import differences
from andiron_lab.seeds.differences import Difference

SEEDS = 5  # a side
SHIFT = 0.01
Draw = Callable[[int], list[float]]  # values of so many different seeds
SEED_NUMBERS = ((2, 2), (2, 3), (2, 5), (2, 8), (2, 20), (3, 5), (3, 12), (3, 20), (5, 5), (5, 20),
                (10, 20), (20, 20))  # fmt: skip
SAMPLE_NUMBERS = (8, 15, 30, 60, 100, 150, 200, 300, 500)
KINDS: dict[str, Callable[[numpy.random.Generator, int], numpy.ndarray]] = {
    "normal": lambda generator, number: generator.normal(size=number),
    "lognormal": lambda generator, number: generator.lognormal(size=number),
    "few large": lambda generator, number: generator.exponential(10, number)
    * (generator.random(number) < 0.05),
    "accuracy": lambda generator, number: numpy.round(360 * generator.normal(0.96, 0.01, number))
    / 360,
    "right": lambda generator, number: (generator.random(number) < 0.9) * 1.0,
    "even, 0.5": lambda generator, number: generator.exponential(0.5, number),
    "even, 1.65": lambda generator, number: generator.normal(math.exp(0.5), 0.5, number),
}
SAMPLE_KINDS = {  # of losses of two models
    "right or wrong": ("right", "right"),
    "normal": ("normal", "normal"),
    "lognormal": ("lognormal", "lognormal"),
    "few large": ("few large", "few large"),
    "lognormal, even": ("lognormal", "even, 1.65"),
    "few large, even": ("few large", "even, 0.5"),
}


@dataclass
class Counted:
    """Counts over comparisons; `needed` are the numbers of seeds that were predicted."""

    comparisons: int = 0
    claims: int = 0
    covered: int = 0
    found: int = 0
    needed: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        text = (
            f"{self.comparisons} comparisons of equal configurations: "
            f"{self.claims / self.comparisons:.1%} false claims, "
            f"{self.covered / self.comparisons:.1%} of the intervals have the true difference"
        )
        if not self.needed:
            return text
        result, seeds = self.found / len(self.needed), f"{min(self.needed)} to {max(self.needed)}"
        return (
            f"{text}; a true difference of {SHIFT} is found in {result:.1%} of {len(self.needed)}, "
            f"at the predicted {seeds} seeds a side"
        )


def simulated(generator: random.Random, deviation: float, samples: int | None) -> Draw:
    """Accuracies of 0.96 on average, rounded to a number of test samples if there is one."""

    def accuracy() -> float:
        value = min(1.0, generator.gauss(0.96, deviation))
        return round(value * samples) / samples if samples else value

    return lambda number: [accuracy() for _ in range(number)]


def compared(draw: Draw, number: int, shift: float = 0.0, *, is_paired: bool = False) -> Difference:
    """Two groups of `number` seeds, the second shifted."""
    values = draw(2 * number)
    first = 0 if is_paired else number
    lower = [value + shift for value in values[number:]]
    return differences.by_seed(
        dict(enumerate(values[:number])), dict(enumerate(lower, first))
    )


def counted(
    draw: Draw, comparisons: int, *, is_paired: bool = False, most: int = 10**9
) -> Counted:
    """The counts over `comparisons`; no group has more than `most` seeds."""
    counts = Counted()
    for _ in range(comparisons):
        difference = compared(draw, SEEDS, is_paired=is_paired)
        low, high = difference.interval or (0.0, 0.0)
        counts.comparisons += 1
        counts.claims += difference.is_shown
        counts.covered += low <= 0 <= high
        needed = difference.seeds_needed(SHIFT)
        if needed is not None and needed <= most:
            counts.needed.append(needed)
            counts.found += compared(draw, needed, -SHIFT, is_paired=is_paired).is_shown
    return counts


def any_claims(draw: Draw, families: int) -> float:
    """How often, of 5 equal configurations, one is claimed to differ from a sixth, with Holm."""
    claims = 0
    for _ in range(families):
        first, *others = (dict(enumerate(draw(SEEDS), SEEDS * place)) for place in range(6))
        p_values = [differences.by_seed(first, other).p for other in others]
        claims += min(differences.holm(p_values)) <= differences.ALPHA
    return claims / families


def seed_claims(
    comparisons: int, numbers: tuple[int, int], kind: str, *, is_paired: bool = False
) -> float:
    """The rate of false claims of groups of these numbers of seeds, drawn alike."""
    draw, claims = KINDS[kind], 0
    for trial in range(comparisons):
        generator = numpy.random.default_rng((trial, *numbers))
        first, second = (dict(enumerate(draw(generator, number).tolist())) for number in numbers)
        if not is_paired:
            second = {seed + numbers[0]: value for seed, value in second.items()}
        claims += differences.by_seed(first, second).is_shown
    return claims / comparisons


def sample_claims(comparisons: int, number: int, kinds: tuple[str, str]) -> float:
    """The rate of false claims of two models with equal means on this number of samples."""
    claims = 0
    for trial in range(comparisons):
        generator = numpy.random.default_rng((trial, number))
        scores = (KINDS[kind](generator, number).tolist() for kind in kinds)
        claims += differences.by_sample(*scores).is_shown
    return claims / comparisons


def tables(comparisons: int) -> Iterator[str]:
    """The tables of docs/differences.md, a line at a time."""
    seeds = "normal", "lognormal", "few large", "accuracy"
    yield f"| seeds | {' | '.join(seeds)} |\n| --- |" + " ---: |" * len(seeds)
    for numbers in SEED_NUMBERS:
        rates = (seed_claims(comparisons, numbers, kind) for kind in seeds)
        yield f"| {numbers[0]} and {numbers[1]} | {' | '.join(map('{:.1%}'.format, rates))} |"
    for number in (2, 3, 5, 20):
        rates = (seed_claims(comparisons, (number,) * 2, kind, is_paired=True) for kind in seeds)
        yield f"| {number} pairs | {' | '.join(map('{:.1%}'.format, rates))} |"
    yield f"\n| samples | {' | '.join(SAMPLE_KINDS)} |\n| --- |" + " ---: |" * len(SAMPLE_KINDS)
    for number in SAMPLE_NUMBERS:
        rates = (sample_claims(comparisons, number, kinds) for kinds in SAMPLE_KINDS.values())
        yield f"| {number} | {' | '.join(map('{:.1%}'.format, rates))} |"


def trained(runs: int) -> list[float]:
    """The test accuracies of a small network on digits, trained with `runs` seeds in this process.
    """
    splits, accuracies = digits(valid=0.1, split_seed=0), []
    valid, test = (
        DataLoaderBuilder(splits.batcher).batch_size(512).build(part)
        for part in (splits.valid, splits.test)
    )
    for seed in range(runs):
        torch.manual_seed(seed)
        loader = DataLoaderBuilder(splits.batcher).batch_size(32).shuffle(seed)
        model = Classifier(MLP(splits.input_shape, splits.num_classes, hidden=[64]))
        with tempfile.TemporaryDirectory() as folder:
            builder = LearnerBuilder(Path(folder, "run"), num_epochs=3, seed=seed).renderer(None)
            builder.metric_valid_numeric(Accuracy())
            with builder.build(model, Optimizer(torch.optim.Adam, model), lr=0.01) as learner:
                learner.fit(loader.build(splits.train), valid)
                accuracies.append(learner.evaluate(test)["accuracy"])
    return accuracies


def main() -> None:
    """Prints the counts for simulated accuracies, and for trained runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--comparisons", type=int, default=400)
    parser.add_argument("--runs", type=int, default=0, help="seeds to train (default: none)")
    parser.add_argument("--tables", type=int, default=0, help="comparisons of each rate in tables")
    options = parser.parse_args()
    if options.tables:
        for line in tables(options.tables):
            print(line, flush=True)
        return
    generator = random.Random(0)
    for deviation, samples, is_paired in itertools.product((0.005, 0.02), (None, 360), (0, 1)):
        draw = simulated(generator, deviation, samples)
        counts = counted(draw, options.comparisons, is_paired=bool(is_paired))
        print(f"deviation {deviation}, samples {samples}, paired {is_paired}: {counts}", flush=True)
    rate = any_claims(simulated(generator, 0.01, None), options.comparisons)
    print(f"5 comparisons at a time, with Holm: {rate:.1%} have a false claim", flush=True)
    if options.runs:
        pool = trained(options.runs)
        deviation = differences.noise([pool])[0]
        counts = counted(
            lambda number: generator.sample(pool, number), options.comparisons, most=len(pool) // 2
        )
        print(f"digits, {len(pool)} seeds, deviation {deviation:.4f}: {counts}")


if __name__ == "__main__":
    main()

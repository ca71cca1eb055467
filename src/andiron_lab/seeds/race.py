"""Runs the sweeper `race`: configurations by seeds, dropped once they are shown to be worse."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from andiron import errors
from andiron.plain import readable
from andiron.plain.states import State
from andiron.ranges import Positive, Proportion
from andiron.wings.sweep import grid, launching, sweep_folder
from andiron.wings.sweep.launching import HydraSweep
from andiron.wings.sweep.ledger import Job
from andiron_lab.search import searching
from andiron_lab.seeds import differences, elimination, rungs
from andiron_lab.seeds.elimination import Race, RaceRule

CHOICE = "hydra/sweeper=race"


@dataclass(frozen=True, kw_only=True)
class Options(rungs.Rungs):
    """The options of conf/hydra/sweeper/race.yaml."""

    min_seeds: Annotated[int, Field(ge=2)] = 3
    confidence: Proportion = 0.95
    max_runs: Positive | None = None
    params: dict[str, Any] | None = None


def run(sweep: HydraSweep, options: Options, arguments: list[str]) -> list[Exception]:
    """Trains the jobs; returns the errors of failed jobs.

    Raises: ConfigError for jobs that cannot race; DataError without SciPy; Interrupted once all
    runs are saved.
    """
    differences.library()  # before anything is trained
    overrides = grid.combinations(sweep.loader, arguments)
    few = grid.representative(overrides, sweep.loader, rungs.SHARED)
    plain = [searching.job_config(sweep, job) for job in few]
    own = searching.own_launcher(CHOICE, sweep, plain)
    places, direction = rungs.comparable(plain, options)
    rule = RaceRule(
        [*places, rungs.length_of(plain[0])[1]],
        options.reduction_factor,
        direction,
        options.min_seeds,
        options.confidence,
        options.max_runs or math.inf,
    )
    _check(rungs.check_same(own, overrides, places), rule, own.folder)
    sweep_folder.record(sweep.config)
    jobs = own.train(overrides, 0, partial(Race, rule=rule), elimination.SETTLED)
    print(readable.printable(_verdict(jobs, rule)))
    return own.failures(jobs)


def _check(jobs: Sequence[Job], rule: RaceRule, folder: Path) -> None:
    """Raises: ConfigError for few seeds, or jobs that trained past a rung."""
    seeds = min(map(len, elimination.by_configuration(jobs).values()))
    if seeds < rule.min_seeds:
        why = f"a race compares by seeds, at least hydra.sweeper.min_seeds={rule.min_seeds}"
        raise errors.ConfigError(
            f"seed: {seeds} of each configuration; {why}; give more, such as 'seed=range(0,10)'"
        )
    for job in jobs:
        left = rule.places[len(job.rungs) : -1]
        if job.status == State.DONE and left and job.pause_at != left[0]:
            place = launching.as_typed(folder / (job.folder or ""))
            why = f"was trained past {left[0]}, where this race compares"
            remedy = "give hydra.sweeper.min_epochs=null, which compares whole runs, or another"
            raise errors.ConfigError(f"{place}: {why}; {remedy} sweep_name")


def _verdict(jobs: Sequence[Job], rule: RaceRule) -> str:
    """The configurations that are left, and the training that showed it."""
    runs = elimination.by_configuration(jobs)
    end = elimination.standing(runs, rule)
    part = end.spent / len(jobs)
    names = [elimination.label(configuration, runs) for configuration in end.left]
    left = readable.joined(names, readable.MOST_LISTED)
    why = "is left" if len(names) == 1 else f"are left, not shown to differ: {end.end}"
    trained = f"({part:.1%} of the training of all {len(jobs)} runs)"
    return f"{len(names)} of {len(runs)} configurations {why} {trained}: {left}"

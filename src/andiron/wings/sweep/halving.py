"""Runs the sweeper `asha`: trains a grid, or jobs sampled at random, by successive halving."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from hydra.core.config_loader import ConfigLoader
from pydantic import Field

from andiron import errors
from andiron.plain import improvement
from andiron.plain.cadence import Cadence
from andiron.ranges import Count, Seed
from andiron.shell.config import optuna_package
from andiron.wings.sweep import grid, launching, ledger, promotion, searching, sweep_folder
from andiron.wings.sweep.launching import HydraSweep
from andiron.wings.sweep.ledger import Job
from andiron.wings.sweep.promotion import HalvingRule, Promotions
from andiron.wings.sweep.search import objectives

CHOICE = "hydra/sweeper=asha"
# equal in all jobs
SHARED = ("num_epochs", "num_updates", "validate_every", "valid_sets_every", "objective")
Overrides = Sequence[Sequence[str]]  # of each job
Plain = Mapping[str, Any]  # the configuration of a job


@dataclass(frozen=True, kw_only=True)
class Rungs:
    """The options of sweepers that compare jobs before they end."""

    min_epochs: Count | None = 1
    min_updates: Count | None = None
    reduction_factor: Annotated[int, Field(ge=2)] = 3
    params: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Options(Rungs):
    """The options of conf/hydra/sweeper/asha.yaml."""

    min_epochs: Count = 1
    n_trials: Count | None = None
    seed: Seed = 0


def run(sweep: HydraSweep, options: Options, arguments: list[str]) -> list[Exception]:
    """Trains the jobs; returns the errors of failed jobs.

    Raises: ConfigError for jobs that cannot be halved; Interrupted once all runs are saved.
    """
    overrides, few = _jobs(sweep.loader, options, arguments)
    plain = list(map(sweep.job_config, few))
    own = searching.own_launcher(CHOICE, sweep, plain)
    rule = _rule(plain, options)
    check_same(own, overrides, rule.rungs)
    sweep_folder.record(sweep.config)
    jobs = own.train(overrides, 0, partial(Promotions, rule=rule), promotion.SETTLED)
    return own.failures(jobs)


def _jobs(
    loader: ConfigLoader, options: Options, arguments: list[str]
) -> tuple[Overrides, Overrides]:
    """The overrides of all combinations or of jobs with random values, and of a few to check.

    Raises: ConfigError for an interval in a grid, or an override without a value.
    """
    if options.n_trials is None:
        remedy = "hydra.sweeper.n_trials=27 draws 27 jobs at random"
        (jobs,) = grid.combinations(loader, arguments, remedy=remedy)
        return jobs, grid.representative(jobs, loader, SHARED)
    optuna_package.check(f"{CHOICE} with n_trials")
    from andiron.wings.sweep.search import samplers, search_space

    space = search_space.search_space(arguments, loader)
    return samplers.random_overrides(space, options.n_trials, options.seed), space.corners()


def _rule(jobs: Sequence[Plain], options: Options) -> HalvingRule:
    """The rungs of the jobs, and the direction of their objective; raises as `comparable`."""
    rungs, direction = comparable(jobs, options, "successive halving")
    if rungs:
        return HalvingRule(rungs, options.reduction_factor, direction)
    unit, length = length_of(jobs[0])
    option = f"hydra.sweeper.min_{unit}={getattr(options, f'min_{unit}')}"
    why = f"no rung below num_{unit}={length}; give a smaller one"
    raise errors.ConfigError([f"{option}: {why}"])


def length_of(job: Plain) -> tuple[str, int]:
    """The unit of a job's length, epochs or updates, and the length."""
    unit = "epochs" if job["num_updates"] is None else "updates"
    return unit, job[f"num_{unit}"]


def comparable(jobs: Sequence[Plain], options: Rungs, kind: str) -> tuple[list[int], str]:
    """The rungs below the length of the jobs, and the direction of their objective.

    Raises: ConfigError for jobs that a sweep of this `kind` cannot compare.
    """
    values = {name: sorted({str(job[name]) for job in jobs}) for name in SHARED}
    why = f"all jobs of {kind} must have the same; give one"
    problems = [
        f"{name}={','.join(texts)}: {why}" for name, texts in values.items() if texts[1:]
    ]
    if problems:
        raise errors.ConfigError(problems)
    objective = objectives.objectives(jobs[0])[0]
    split, _ = improvement.split_and_metric(objective.name)
    if split.startswith("test"):
        why = "is measured at the end of a run only; choose one of valid/"
        problems.append(f"objective={objective.name}: {why}")
    rungs, rung_problems = _rungs(jobs[0], split, options)
    if problems or rung_problems:
        raise errors.ConfigError([*problems, *rung_problems])
    return rungs, objective.direction


def _rungs(job: Plain, split: str, options: Rungs) -> tuple[list[int], list[str]]:
    """The rungs below the length of a job, and their problems; `split` is the objective's."""
    unit, length = length_of(job)
    other = "updates" if unit == "epochs" else "epochs"
    first = getattr(options, f"min_{unit}")
    if options.min_epochs is options.min_updates is None:
        return [], []
    option = f"hydra.sweeper.min_{unit}"
    if first is None or (unit == "epochs" and options.min_updates is not None):
        why = f"the rungs are in {unit} too; give {option}={first or length // 10 or 1}"
        return [], [f"num_{unit}={length}: {why}, and leave out min_{other}"]
    rungs = promotion.rungs(first, options.reduction_factor, length)
    problems = []
    cadences = {"validate_every": job["validate_every"]}
    name = split.partition("-")[0]
    if name in (sets := job.get("valid_sets_every") or {}):
        cadences[f"valid_sets_every.{name}"] = sets[name]
    for option, cadence in cadences.items():
        every = getattr(Cadence.of(cadence), unit)
        if every is None or every != int(every) or first % every:
            value = f"{first}epochs" if unit == "epochs" else first
            places = ", ".join(map(str, rungs))
            why = f"jobs are compared after {places} {unit}, and must be validated there"
            problems.append(f"{option}={cadence}: {why}; give {value}")
    return rungs, problems


def check_same(
    launcher: launching.Launcher, overrides: Overrides, rungs: Sequence[int]
) -> list[Job]:
    """The jobs as the ledger has them.

    Raises: ConfigError if earlier jobs paused at other rungs or had another objective.
    """
    is_new = launcher.config.overwrite
    known = ledger.Sweep(launcher.folder) if is_new else ledger.read(launcher.folder)
    jobs = known.numbered(overrides)
    paused = [[at for at, _ in job.rungs] for job in jobs if job.rungs]
    problems = []
    if others := [places for places in paused if places != list(rungs[: len(places)])]:
        text = ", ".join(map(str, rungs)) or "none"
        problems.append(f"jobs that paused at {max(others)}, and now the rungs are {text}")
    before, now = known.facts.get("objective"), launcher.metric()
    if paused and before != now:
        problems.append(f"jobs that were compared by objective={before}, and now it is {now}")
    if problems:
        raise errors.ConfigError(
            f"{launching.as_typed(launcher.folder)} holds {problem}; choose another sweep_name"
            for problem in problems
        )
    return [*map(known.current, jobs)]

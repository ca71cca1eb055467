"""What the sweeper `asha` does: trains a grid, or jobs drawn at random, by successive halving."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig
from pydantic import Field

from andiron import errors
from andiron.config import optuna_package, violations
from andiron.plain import improvement
from andiron.plain.cadence import Cadence
from andiron.ranges import Count, Seed
from andiron.sweep import launching, ledger, promotion, searching, settled, sweep_folder
from andiron.sweep.promotion import Promotions, Rule
from andiron.sweep.search import objectives

CHOICE = "hydra/sweeper=asha"
SHARED = ("num_epochs", "num_updates", "validate_every", "objective")  # by all jobs
Overrides = Sequence[Sequence[str]]  # of each job
Plain = Mapping[str, Any]  # the configuration of a job


@dataclass(frozen=True, kw_only=True)
class HalvingOptions:
    """The options of conf/hydra/sweeper/asha.yaml."""

    min_epochs: Count = 1
    min_updates: Count | None = None
    reduction_factor: Annotated[int, Field(ge=2)] = 3
    n_trials: Count | None = None
    seed: Seed = 0
    params: dict[str, Any] | None = None


def run(
    loader: ConfigLoader,
    config: DictConfig,
    launcher: Launcher,
    given: Mapping[str, Any],
    arguments: list[str],
) -> list[Exception]:
    """Trains the jobs, and returns the errors of those that failed.

    `given` are the options of the sweeper; `launcher` is that which Hydra made.
    Raises: ConfigError for what cannot be halved; Interrupted once all runs are saved.
    """
    options = violations.checked(HalvingOptions, given, prefix="hydra.sweeper.")
    overrides, few = (_grid if options.n_trials is None else _drawn)(loader, options, arguments)
    plain = [searching.checked(loader, config, each) for each in few]
    own = searching.own_launcher(CHOICE, launcher, plain)
    rule = _rule(plain, options)
    if not config.overwrite:
        _check_same(own, overrides, rule)
    sweep_folder.record(config)
    jobs = own.trained(overrides, 0, partial(Promotions, rule=rule), promotion.SETTLED)
    return own.failures(jobs)


def _grid(
    loader: ConfigLoader, options: HalvingOptions, arguments: Sequence[str]
) -> tuple[Overrides, Overrides]:
    """Every combination of values; and those few that have every option and choice.

    Raises: ConfigError for an interval.
    """
    params = [f"{option}={value}" for option, value in (options.params or {}).items()]
    parser = OverridesParser.create(config_loader=loader)
    overrides = parser.parse_overrides([*params, *arguments])
    remedy = "hydra.sweeper.n_trials=27 draws so many jobs at random"
    endless = [
        f"{each.input_line}: an interval has no grid; {remedy}"
        for each in overrides
        if each.is_interval_sweep()
    ]
    if endless:
        raise errors.ConfigError(endless)
    (jobs,) = BasicSweeper.split_arguments(overrides, None)
    return jobs, settled.representative(jobs, loader, SHARED)


def _drawn(
    loader: ConfigLoader, options: HalvingOptions, arguments: Sequence[str]
) -> tuple[Overrides, Overrides]:
    """Jobs with values at random; and those that have every choice, and both ends of intervals."""
    optuna_package.check(f"{CHOICE} with n_trials")
    from andiron.sweep.search import samplers, search_space

    space = search_space.search_space(options.params or {}, arguments, loader)
    return samplers.drawn(space, options.n_trials or 0, options.seed), space.corners()


def _rule(jobs: Sequence[Plain], options: HalvingOptions) -> Rule:
    """The rungs of these jobs, and which value of their objective is best.

    Raises: ConfigError for jobs that cannot be compared at rungs.
    """
    given = {name: sorted({str(job[name]) for job in jobs}) for name in SHARED}
    why = "all jobs of successive halving must have the same; give one"
    problems = [
        f"{name}={','.join(values)}: {why}" for name, values in given.items() if values[1:]
    ]
    if problems:
        raise errors.ConfigError(problems)
    sought = objectives.objectives(jobs[0])[0]
    if improvement.split_and_metric(sought.name)[0].startswith("test"):
        why = "is measured at the end of a run only; choose one of valid/"
        problems.append(f"objective={sought.name}: {why}")
    rungs, found = _rungs(jobs[0], options)
    if problems or found:
        raise errors.ConfigError([*problems, *found])
    return Rule(rungs, options.reduction_factor, sought.direction)


def _rungs(job: Plain, options: HalvingOptions) -> tuple[list[int], list[str]]:
    """The rungs below the length of a job, and the problems with them."""
    unit = "epochs" if job["num_updates"] is None else "updates"
    other = "updates" if unit == "epochs" else "epochs"
    first, length = getattr(options, f"min_{unit}"), job[f"num_{unit}"]
    option = f"hydra.sweeper.min_{unit}"
    if first is None or (unit == "epochs" and options.min_updates is not None):
        why = f"the rungs are in {unit} too; give {option}={first or length // 10 or 1}"
        return [], [f"num_{unit}={length}: {why}, and leave out min_{other}"]
    rungs = promotion.rungs(first, options.reduction_factor, length)
    problems = []
    if not rungs:
        problems.append(f"{option}={first}: no rung below num_{unit}={length}; give a smaller one")
    every = getattr(Cadence.of(job["validate_every"]), unit)
    if every is None or every != int(every) or first % every:
        value = f"{first}epochs" if unit == "epochs" else first
        places = ", ".join(map(str, rungs))
        why = f"jobs are compared after {places} {unit}, and have to be validated there"
        problems.append(f"validate_every={job['validate_every']}: {why}; give {value}")
    return rungs, problems


def _check_same(launcher: launching.Launcher, overrides: Overrides, rule: Rule) -> None:
    """Refuses to continue jobs that were compared by something else.

    Raises: ConfigError.
    """
    known = ledger.read(launcher.folder)
    jobs = [known.jobs.get(ledger.identity(each)) for each in overrides]
    paused = [[at for at, _ in job.rungs] for job in jobs if job is not None and job.rungs]
    problems = []
    if others := [each for each in paused if each != list(rule.rungs[: len(each)])]:
        rungs = ", ".join(map(str, rule.rungs))
        problems.append(f"jobs that paused at {max(others)}, and now the rungs are {rungs}")
    before, now = known.facts.get("objective"), launcher.metric()
    if paused and before != now:
        problems.append(f"jobs that were compared by objective={before}, and now it is {now}")
    if problems:
        raise errors.ConfigError(
            f"{launching.as_typed(launcher.folder)} holds {each}; choose another sweep_name"
            for each in problems
        )

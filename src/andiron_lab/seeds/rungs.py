"""Where the jobs of a race are compared before they end, and whether they can be compared there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from andiron import errors
from andiron.plain import improvement
from andiron.plain.cadence import Cadence
from andiron.ranges import Count
from andiron.wings.sweep import launching, ledger
from andiron.wings.sweep.ledger import Job
from andiron.wings.sweep import objectives

# equal in all jobs
SHARED = ("num_epochs", "num_updates", "validate_every", "valid_sets_every", "objective")
Plain = Mapping[str, Any]  # the configuration of a job


@dataclass(frozen=True, kw_only=True)
class Rungs:
    """The options that place the rungs."""

    min_epochs: Count | None = 1
    min_updates: Count | None = None
    reduction_factor: Annotated[int, Field(ge=2)] = 3


def below(first: int, factor: int, length: int) -> list[int]:
    """The rungs below `length`.

    >>> below(1, 3, 27)
    [1, 3, 9]
    """
    return [] if first >= length else [first, *below(first * factor, factor, length)]


def length_of(job: Plain) -> tuple[str, int]:
    """The unit of a job's length, epochs or updates, and the length."""
    unit = "epochs" if job["num_updates"] is None else "updates"
    return unit, job[f"num_{unit}"]


def comparable(jobs: Sequence[Plain], options: Rungs) -> tuple[list[int], str]:
    """The rungs below the length of the jobs, and the direction of their objective.

    Raises: ConfigError for jobs that a race cannot compare.
    """
    values = {name: sorted({str(job[name]) for job in jobs}) for name in SHARED}
    why = "all jobs of a race must have the same; give one"
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
    rungs = below(first, options.reduction_factor, length)
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
    launcher: launching.Launcher, overrides: Sequence[Sequence[str]], rungs: Sequence[int]
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
    before, now = known.facts.get("objective"), launcher.metric
    if paused and before != now:
        problems.append(f"jobs that were compared by objective={before}, and now it is {now}")
    if problems:
        raise errors.ConfigError(
            f"{launching.as_typed(launcher.folder)} holds {problem}; choose another sweep_name"
            for problem in problems
        )
    return [*map(known.current, jobs)]

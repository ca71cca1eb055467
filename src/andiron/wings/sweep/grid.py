"""Runs the sweeper `andiron`: trains every combination of the given values, with any launcher."""

import functools
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

# Hydra's own split into jobs, so that texts are those of its basic sweeper: it has no public one
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser

from andiron import errors
from andiron.wings.sweep import sweep_folder
from andiron.wings.sweep.launching import HydraSweep

Jobs = list[list[str]]  # the overrides of each


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of conf/hydra/sweeper/andiron.yaml."""

    params: dict[str, Any] | None = None


def run(sweep: HydraSweep, options: Options, arguments: list[str]) -> list[Exception]:
    """Trains the jobs; returns the errors of failed jobs.

    Raises: ConfigError without a combination of values; HydraException for a job that cannot be
    composed, before any starts.
    """
    jobs = combinations(sweep.loader, arguments)
    sweep_folder.record(sweep.config)
    for job in representative(jobs, sweep.loader):
        try:
            sweep.compose(job)
        except Exception as error:
            error.add_note(f"{' '.join(job)}: ")
            raise
    return [result for result in sweep.launch(jobs, 0) if isinstance(result, Exception)]


def combinations(loader: ConfigLoader, arguments: list[str]) -> Jobs:
    """The jobs with all combinations of the values.

    Raises: ConfigError naming an interval, or an override without a value, such as a glob that
    matches no choice.
    """
    overrides = OverridesParser.create(config_loader=loader).parse_overrides(arguments)
    problems = [
        f"{override.input_line}: an interval has no grid; hydra/sweeper=optuna searches it"
        for override in overrides
        if override.is_interval_sweep()
    ]
    problems += [
        f"{override.input_line}: no combination of values; give some"
        for override in overrides
        if override.is_discrete_sweep() and not [*islice(override.sweep_string_iterator(), 1)]
    ]
    if problems:
        raise errors.ConfigError(problems)
    jobs: Jobs
    (jobs,) = BasicSweeper.split_arguments(overrides, None)
    return jobs


def representative(
    overrides: Jobs, loader: ConfigLoader, whole: Collection[str] = ()
) -> Jobs:
    """Few jobs that have every option, every choice of a group and every value of `whole`.

    `loader` knows the groups.
    """

    @functools.cache
    def is_choice(option: str) -> bool:
        name = option.lstrip("+~").partition("@")[0]
        return name in whole or bool(loader.get_group_options(name))

    seen: set[str] = set()
    few = []
    for job in overrides:
        options = {text: text.partition("=")[0] for text in job}
        marks = {text if is_choice(option) else option for text, option in options.items()}
        if not marks <= seen:
            few.append(job)
            seen |= marks
    return few

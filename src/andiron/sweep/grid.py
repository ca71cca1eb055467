"""Runs the sweeper `andiron`: trains every combination of the given values, with any launcher."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from andiron import errors
from andiron.ranges import Count
from andiron.sweep import launching, settled, sweep_folder


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of conf/hydra/sweeper/andiron.yaml."""

    max_batch_size: Count | None = None
    params: dict[str, Any] | None = None


def run(
    loader: ConfigLoader,
    config: DictConfig,
    launcher: Launcher,
    options: Options,
    arguments: list[str],
) -> list[Exception]:
    """Trains the jobs, a batch at a time; returns the errors of failed jobs.

    Raises: ConfigError without a combination of values; HydraException for a job that cannot be
    composed, before any of its batch starts.
    """
    parsed = OverridesParser.create(config_loader=loader).parse_overrides(arguments)
    batches = combinations(parsed, options.max_batch_size)
    sweep_folder.record(config)
    failed = []
    first = 0
    for batch in batches:
        for job in settled.representative(batch, loader):
            loader.load_sweep_config(config, list(job))
        results = launching.launch_jobs(launcher, config, batch, first)
        # `return_value` would raise the error
        failed += [job._return_value for job in results if job.status is JobStatus.FAILED]
        first += len(batch)
    return failed


def combinations(
    overrides: Sequence[Override], most: int | None = None
) -> list[list[list[str]]]:
    """All combinations of the values, in batches of at most `most` jobs.

    Raises: ConfigError naming an override without a value, such as a glob that matches no choice.
    """
    problems = [
        f"{override.input_line}: no combination of values; give some"
        for override in overrides
        if override.is_discrete_sweep() and not [*islice(override.sweep_string_iterator(), 1)]
    ]
    if problems:
        raise errors.ConfigError(problems)
    batches: list[list[list[str]]] = BasicSweeper.split_arguments([*overrides], most)
    return batches

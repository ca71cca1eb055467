"""The configurations of a sweep's jobs, composed and checked before the jobs can start."""

import time
from collections.abc import Iterable, Sequence

from omegaconf import DictConfig

from andiron import errors
from andiron.config.schema import Train
from andiron.sweep.job_composition import JobComposition

SECONDS_AHEAD = 1.2  # about the time in which the clean process imports torch
ComposedJob = tuple[DictConfig, Train] | None


class JobConfigs:
    """The composed and checked configuration of each job, by its overrides."""

    def __init__(self, composition: JobComposition):
        self._composition = composition
        self._ahead: dict[tuple[str, ...], ComposedJob] = {}

    def compose_ahead(self, jobs: Iterable[Sequence[str]]) -> None:
        """Composes the first jobs, given their overrides, while none can start yet."""
        end = time.monotonic() + SECONDS_AHEAD
        for overrides in jobs:
            if time.monotonic() > end:
                break
            self._ahead[tuple(overrides)] = self._compose(overrides)

    def of(self, overrides: Sequence[str]) -> ComposedJob:
        """The job's configuration; None if it is invalid: the job itself reports why."""
        key = tuple(overrides)
        return self._ahead.pop(key) if key in self._ahead else self._compose(overrides)

    def shared_problems(self, jobs: Sequence[Sequence[str]]) -> list[str]:
        """The problems that the first and the last job have in common."""
        problems: list[tuple[str, ...]] = []
        for overrides in (jobs[0], jobs[-1]):
            try:
                self._composition.checked(overrides)
            except errors.ConfigError as error:
                problems.append(error.problems)
        return [text for text in problems[0] if text in problems[1]] if problems[1:] else []

    def _compose(self, overrides: Sequence[str]) -> ComposedJob:
        try:
            return self._composition.checked(overrides)
        except errors.ConfigError:
            return None

"""The configurations of a sweep's jobs, composed and checked before the jobs can start."""

import time
from collections.abc import Iterable, Sequence

from omegaconf import DictConfig

from andiron import errors
from andiron.config.schema import Train
from andiron.sweep.job_composition import JobComposition

SECONDS_AHEAD = 1.2  # about as long as the process that jobs are forked from imports torch
Composed = tuple[DictConfig, Train] | None


class JobConfigs:
    """What a composition gives for each job, by its overrides."""

    def __init__(self, composition: JobComposition):
        self._composition = composition
        self._ahead: dict[tuple[str, ...], Composed] = {}

    def compose_ahead(self, jobs: Iterable[Sequence[str]]) -> None:
        """Composes the first of these jobs, by their overrides, while none can start."""
        end = time.monotonic() + SECONDS_AHEAD
        for overrides in jobs:
            if time.monotonic() > end:
                break
            self._ahead[tuple(overrides)] = self._composed(overrides)

    def of(self, overrides: Sequence[str]) -> Composed:
        """A job as Hydra composes it, and as checked; None where the job is to say what is wrong.
        """
        key = tuple(overrides)
        return self._ahead.pop(key) if key in self._ahead else self._composed(overrides)

    def shared_problems(self, jobs: Sequence[Sequence[str]]) -> list[str]:
        """The problems that both the first and the last of these jobs have."""
        found: list[tuple[str, ...]] = []
        for overrides in (jobs[0], jobs[-1]):
            try:
                self._composition.checked(overrides)
            except errors.ConfigError as error:
                found.append(error.problems)
        return [each for each in found[0] if each in found[1]] if len(found) == 2 else []

    def _composed(self, overrides: Sequence[str]) -> Composed:
        try:
            return self._composition.checked(overrides)
        except errors.ConfigError:
            return None

"""The configurations of a sweep's jobs, which the sweep composes and checks for them."""

import time
from collections.abc import Iterable, Sequence

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig

from andiron import errors
from andiron.config import composition
from andiron.config.schema import Train

SECONDS_AHEAD = 1.2  # about as long as the process that jobs are forked from imports torch
Composed = tuple[DictConfig, Train] | None


class JobConfigs:
    """Composes jobs from the configuration of their sweep."""

    def __init__(self, loader: ConfigLoader, sweep: DictConfig):
        self._loader = loader
        self._sweep = sweep
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

    def _composed(self, overrides: Sequence[str]) -> Composed:
        try:
            return composition.of_job(self._loader, self._sweep, overrides)
        except errors.ConfigError:
            return None

"""Composes and checks the jobs of a sweep.

Jobs that differ only in plain values, such as `lr=0.1` and `lr=0.2`, share one composition, in
which the values are replaced: that takes 10 ms, a composition 90 ms.
"""

import copy
import functools
from collections.abc import Sequence

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf

from andiron import errors
from andiron.config import arguments, composition, schema

MOST_CACHED = 16  # compositions of about 1 MB each


class JobComposition:
    """Composes jobs from the configuration of their sweep."""

    def __init__(self, loader: ConfigLoader, sweep: DictConfig):
        self._loader = loader
        self._sweep = sweep
        self._cached = functools.lru_cache(MOST_CACHED)(self._by_hydra)
        self._parsed = functools.lru_cache(MOST_CACHED)(arguments.parsed_override)

    def checked(self, overrides: Sequence[str]) -> tuple[DictConfig, schema.Train]:
        """A job as Hydra composes it, and its checked configuration.

        Raises: ConfigError if it is invalid.
        """
        try:
            config = self.composed(overrides)
        except Exception as error:  # Hydra raises even AssertionError and TypeError
            raise errors.ConfigError([str(error)]) from error
        return config, composition.checked_job(config)

    def composed(self, overrides: Sequence[str]) -> DictConfig:
        """The same result as Hydra's `load_sweep_config`."""
        parsed = [override for override in map(self._parsed, overrides) if override is not None]
        plain = [override for override in parsed if self._is_plain(override, parsed)]
        if not plain or len(parsed) < len(overrides):
            return self._by_hydra(tuple(overrides))
        texts = (
            f"{override.key_or_group}=0" if override in plain else override.input_line
            for override in parsed
        )
        config = copy.deepcopy(self._cached(tuple(map(str, texts))))
        for override in plain:
            OmegaConf.update(config, override.key_or_group, override.value())
        task = [override for override in parsed if not override.is_hydra_override()]
        config.hydra.overrides.task = [override.input_line for override in task]
        naming = config.hydra.job.config.override_dirname
        config.hydra.job.override_dirname = get_overrides_dirname(task, **naming)
        return config

    def _by_hydra(self, overrides: tuple[str, ...]) -> DictConfig:
        return self._loader.load_sweep_config(self._sweep, list(overrides))

    def _is_plain(self, override: Override, overrides: Sequence[Override]) -> bool:
        """Whether the override only replaces a value that no other override touches."""
        option, value = override.key_or_group, override.value()
        return (
            override.type is OverrideType.CHANGE
            and override.package is None
            and not override.is_hydra_override()
            and isinstance(value, str | int | float)
            and not any(mark in f"{option}{value}" for mark in ("[", "${"))
            and not any(
                _is_within(option, other.key_or_group) or _is_within(other.key_or_group, option)
                for other in overrides
                if other is not override
            )
            and not self._loader.get_group_options(option)
        )


def _is_within(option: str, other: str) -> bool:
    return option == other or option.startswith(f"{other}.")

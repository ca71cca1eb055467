"""The sweepers of Andiron, where Hydra finds plugins and imports them at every start."""

from abc import abstractmethod
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class _CommandSweeper(Sweeper):
    """Delegates the sweep to `run` of `_module`, which returns the errors of failed jobs."""

    @property
    @abstractmethod  # Hydra would offer a class that can be made
    def _module(self) -> str: ...

    def __init__(self, **options: Any):
        self._options = {
            name: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for name, value in options.items()
        }

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps the loader, the configuration and the launcher."""
        self._loader, self._config = hydra_context.config_loader, config
        self._failures: list[Exception] = getattr(task_function, "failures", [])
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Runs the jobs that `params` and the arguments, which take precedence, describe."""
        from andiron import errors
        from andiron.plain import wings
        from andiron.shell.config import violations
        from andiron.wings.sweep import launching, sweep_folder

        sweep_folder.check(self._config)
        if (module := wings.optional(self._module)) is None:
            chosen = self._config.hydra.runtime.choices["hydra/sweeper"]
            raise errors.ConfigError(wings.missing_lab(f"hydra/sweeper={chosen}"))
        options = violations.checked(module.Options, self._options, prefix="hydra.sweeper.")
        params = [f"{option}={value}" for option, value in (options.params or {}).items()]
        overrides = [*params, *arguments]
        sweep = launching.HydraSweep(self._loader, self._config, self._launcher)
        failed = module.run(sweep, options, overrides)
        self._failures += [error for error in failed if error not in self._failures]


class AndironSweeper(_CommandSweeper):
    """Every combination of values; conf/hydra/sweeper/andiron.yaml has the options."""

    _module = "sweep.grid"


class OptunaSweeper(_CommandSweeper):
    """Searches with optuna; conf/hydra/sweeper/optuna.yaml has the options."""

    _module = "andiron_lab.search.searching"


class RaceSweeper(_CommandSweeper):
    """Configurations by seeds; conf/hydra/sweeper/race.yaml has the options."""

    _module = "andiron_lab.seeds.race"

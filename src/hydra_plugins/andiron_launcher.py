"""The launcher of sweeps, where Hydra finds plugins and imports them at every start."""

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class AndironLauncher(Launcher):
    """Runs each job in a process of its own; conf/hydra/launcher/andiron.yaml has the options."""

    def __init__(self, **options: Any):
        self._options = options

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Starts the clean process, which imports torch while Hydra checks the jobs."""
        from andiron.wings.sweep import launching

        self.of_sweep = launching.prepare(hydra_context, task_function, config, self._options)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Runs the jobs; returns their results in order."""
        return self.of_sweep.launch(job_overrides, initial_job_idx)

"""Hydra's basic sweeper; a failed job is reported at the end and does not stop later batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class AndironSweeper(BasicSweeper):
    """Adds the failures of all jobs, with any launcher, to the command's."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """As BasicSweeper."""
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
        if self.launcher is not None:
            failures = getattr(task_function, "failures", [])
            self.launcher = _FailureRecorder(self.launcher, config, failures)

    def sweep(self, arguments: list[str]) -> None:
        """As BasicSweeper, after checking that the folder is safe to write."""
        from andiron.sweep import sweep_folder

        if self.config is not None:
            sweep_folder.check(self.config)
        super().sweep(arguments)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Composes a few jobs that have every option and every choice of a group."""
        from andiron.sweep import settled

        if self.hydra_context is not None:
            few = settled.representative(batch, self.hydra_context.config_loader)
            super().validate_batch_is_legal(few)


@dataclass
class _FailureRecorder(Launcher):
    """Wraps a launcher: records the errors of failed jobs, whose results become None."""

    launcher: Launcher
    config: DictConfig
    failures: list[Exception]

    def setup(self, **parts: Any) -> None:
        """Does nothing: the launcher has been set up."""

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Runs the jobs; returns their results."""
        from andiron.sweep import launching

        returned = launching.launch_jobs(
            self.launcher, self.config, job_overrides, initial_job_idx
        )
        for job_return in returned:
            if job_return.status is JobStatus.FAILED:
                error = job_return._return_value  # the property would raise it
                if error not in self.failures:
                    self.failures.append(error)
                job_return.status, job_return.return_value = JobStatus.COMPLETED, None
        return returned

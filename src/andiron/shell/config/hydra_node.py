"""Hydra's own node of a run: its log file, whether a sweep was meant, and what interpolates it."""

from collections.abc import Callable
from typing import Any, TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from andiron import errors
from andiron.shell.config import schema
from andiron.shell.config.flags import ONE_RUN

Checked = TypeVar("Checked")


def apart(config: DictConfig, check: Callable[[DictConfig], Checked]) -> Checked:
    """`check` of a job without Hydra's own node, where `${hydra:...}` still finds it."""
    options = [str(name) for name in config if name != "hydra"]
    of_hydra: Any = HydraConfig.instance()
    before, of_hydra.cfg = of_hydra.cfg, config
    try:
        return check(OmegaConf.masked_copy(config, options))
    finally:
        of_hydra.cfg = before


def check(arguments: list[str]) -> None:
    """Refuses a log file of Hydra's in the run folder: a folder with files of others is no run's.

    Without ONE_RUN in the `arguments`, also options of a sweep, and options to search, of one run.
    Raises: ConfigError.
    """
    own = HydraConfig.get()
    if any("filename" in handler for handler in (own.job_logging.get("handlers") or {}).values()):
        choice = f"hydra/job_logging={own.runtime.choices['hydra/job_logging']}"
        raise errors.ConfigError(
            f"{choice}: writes a file into the run folder, where experiment.log has all that is "
            "logged; give hydra/job_logging=stdout, or none"
        )
    if own.mode is RunMode.MULTIRUN or ONE_RUN in arguments:
        return
    texts: Any = OmegaConf.to_container(own.overrides.task, resolve=False)  # they may hold ${
    given = {text.partition("=")[0] for text in texts}
    names = [name for name in schema.OF_A_SWEEP if name in given]
    if not {*(own.sweeper.get("params") or ())} <= given:  # else it is one job of a search again
        names.append("hydra.sweeper.params")
    if names:
        why = f"applies to sweeps only; add -m, or {ONE_RUN} for one run"
        raise errors.ConfigError([f"{name}=...: {why}" for name in names])

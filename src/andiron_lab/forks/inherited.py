"""The configuration of a recorded run, composed again on today's conf/ with other overrides."""

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config import arguments as command_arguments
from andiron.shell.config import composition, leaves, resolution, schema
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import resume_policy
from andiron.shell.run.changed_options import key_of
from andiron_lab.forks import recorded_overrides


def with_config_dir(trusted: Trust, run: str, conf_dirs: list[Path]) -> tuple[Trust, str]:
    """The trust, and a remedy for choices, that name the folder from which a run was composed.

    `run` is its folder, or one with a checkpoint as `fork_from` names it.
    """
    place = run if os.path.isdir(run) else run.rpartition("@")[0]
    own = recorded_overrides.config_dir(RunFolder(Path(place)))
    if own is None or own in conf_dirs:
        return trusted, recorded_overrides.ALONE
    flag = f"--config-dir {shlex.quote(str(own))}"
    remedy = f"give {flag} too, from which the run was composed"
    return replace(trusted, spelling=f"{flag} {trusted.spelling}"), remedy


@dataclass(frozen=True)
class Inherited:
    """The check of a run that has the configuration of a recorded one, or of itself, and changes.

    `recorded` are its overrides, `own` the given ones. It may name what is `trusted`.
    """

    config: dict[str, Any]
    recorded: list[str]
    own: list[str]
    trusted: Trust

    def _as_recorded(self, composed: DictConfig) -> DictConfig:
        """The recorded overrides on today's conf/, with the recorded values of what is given."""
        before = hydra.compose("train", overrides=self.recorded)
        keys = {key_of(text) for text in self.own}
        for path, value in leaves.leaves(self.config):
            *above, name = (".".join(path[:length]) for length in range(1, len(path) + 1))
            if name in keys or not keys.isdisjoint(above) and not _follows(composed, path):
                OmegaConf.update(before, name, value, force_add=True)
        return before

    def __call__(self, composed: DictConfig) -> Train:
        """The configuration with the changes of the overrides, without changes in conf/.

        Raises: ConfigError with every mistake.
        """
        composition.checked_config(composed, self.trusted)
        before = resolution.plain(self._as_recorded(composed))
        own = resume_policy.changes(before, resolution.plain(composed))
        plain = resume_policy.applied(self.config, own)
        if problems := schema.problems(plain):
            raise errors.ConfigError(problems.values())
        return Train(**plain).with_absolute_paths()


def _follows(composed: DictConfig, path: leaves.Path) -> bool:
    """Whether an option has the value of another, such as the rate of a schedule."""
    node = OmegaConf.select(composed, ".".join(path[:-1]))
    is_known = OmegaConf.is_dict(node) and path[-1] in node
    return is_known and OmegaConf.is_interpolation(node, path[-1])


def divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The overrides, and the flags, which come last."""
    overrides = command_arguments.parsed(arguments).overrides
    return overrides, arguments[len(overrides) :]

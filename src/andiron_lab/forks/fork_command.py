"""`fork_from=` on a command line: the options of the run that it names, and the given changes."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from andiron.options import Resume
from andiron.shell.config import arguments as command_arguments, composition, config_folders
from andiron.shell.config import leaves, quoting, schema, trust
from andiron.shell.config.composition import Task
from andiron.shell.config.flags import ONE_RUN
from andiron.shell.config.schema import Train
from andiron.shell.run import resume_policy
from andiron.shell.run.changed_options import joined, without
from andiron.shell.training import resume_arguments
from andiron_lab.forks import inherited, recorded_overrides
from andiron_lab.forks.inherited import Inherited

# what a resumed run never changes, a fork may: freely, or if allowed, as far as the state fits
OF_A_FORK: dict[str, Resume] = {
    "name": "free", "fork_from": "free", "model": "ask", "param_groups": "ask",
}  # fmt: skip


def run(task: Task, conf_dir: Path, arguments: list[str], values: dict[str, Any]) -> None:
    """Calls `task` for a fork, or for each of a sweep; `values` are the options of `arguments`.

    Raises: as `composition.run`; RunFolderError if there is no such run or checkpoint.
    """
    from andiron_lab.forks import fork_point  # imports torch

    command_arguments.check(arguments)
    conf_dirs, parent = config_folders.all_dirs(conf_dir, arguments), str(values["fork_from"])
    given, flags = inherited.divided(arguments)
    trusted = trust.of_user(conf_dirs, resume_arguments.trusted_packages(values), arguments)
    trusted, remedy = inherited.with_config_dir(trusted, parent, conf_dirs)
    point = fork_point.named(parent, trusted)
    resume_arguments.check_mirror(point.parent, values)
    recorded = recorded_overrides.recorded(point.folder, conf_dirs, remedy)
    own = without(given, "fork_from")
    own.append(quoting.override("fork_from", point.text))
    check = Forked(Inherited(asdict(point.parent), recorded, own, trusted))
    one = [] if command_arguments.parsed(flags).multirun else [ONE_RUN]
    overrides = [*joined(recorded, own), *one, *flags]
    composition.run(task, conf_dir, overrides, check=check)


def policy_of(path: leaves.Path) -> Resume:
    """Whether a fork may change the option: its own record has what a resumed run asks for."""
    policy = resume_policy.policy_of(path)
    return OF_A_FORK.get(path[0], "free" if policy == "ask" else policy)


@dataclass(frozen=True)
class Forked:
    """The check of a fork, which records what it may name."""

    inherited: Inherited

    def __call__(self, composed: DictConfig) -> Train:
        """The configuration of the parent with the changes of the overrides.

        Raises: ConfigError with every mistake, and for changes that a fork never makes.
        """
        trusted = self.inherited.trusted
        given = composition.checked_config(composed, trusted)
        instructions = {name: getattr(given, name) for name in schema.INSTRUCTIONS}
        instructions["trust"] = [*trusted.packages, *sorted(trusted.names)]
        config = replace(self.inherited(composed), **instructions).with_absolute_paths()
        changes = resume_policy.changes(self.inherited.config, asdict(config))
        resume_policy.check(
            changes, config.resume_allow, policy_of=policy_of, noun="fork", verb="fork"
        )
        return resume_arguments.checked_start(composed, lambda _: config)

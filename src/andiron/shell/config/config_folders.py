"""The folders that Hydra composes a command line from: `conf/`, the user's, then the lab's."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig

from andiron import errors
from andiron.plain import wings
from andiron.shell.config import arguments as command_arguments, project

Groups = dict[str, list[str]]  # the choices of every config group


class BesideConf(SearchPathPlugin):
    """The plugin that Hydra asks at the start of each composition.

    Hydra itself would add the user's `--config-dir` after all plugins.
    """

    folders: ClassVar[Sequence[Path]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Adds the folders, with the provider that their place in a record tells."""
        of_the_lab = project.shipped_conf_dirs()[1:]
        for folder in self.folders:
            provider = wings.LAB if folder in of_the_lab else "command-line"
            search_path.append(provider, str(folder))


def use(folders: Sequence[Path]) -> None:
    """Lets Hydra search these folders after `conf/` in the next compositions of this process."""
    BesideConf.folders = folders
    Plugins.instance().register(BesideConf)


def composed_by_hydra(
    overrides: list[str], conf_dir: Path, *others: Path, has_hydra: bool = False
) -> DictConfig:
    """The configuration as Hydra composes it from these overrides and folders.

    With `has_hydra` it has Hydra's own node.
    """
    GlobalHydra.instance().clear()
    use(others)
    with initialize_config_dir(str(conf_dir), version_base="1.3"):
        return compose("train", overrides=overrides, return_hydra_config=has_hydra)


def all_dirs(conf_dir: Path, arguments: list[str]) -> list[Path]:
    """The folders that a command line is composed from: `conf/`, the user's, the lab's.

    The user's is that of `--config-dir`, or the project's.
    Raises: ConfigError if there is no such folder; for a train.yaml of the user, as of another
    trainer, without a project/default.yaml: nothing would be of the user; and for a choice of
    theirs with the name of one of `conf/`, which Hydra would read instead.
    """
    given = command_arguments.parsed(arguments).config_dir
    if given and not Path(given).is_dir():
        raise errors.ConfigError(f"--config-dir={given}: no such folder")
    own = [Path(given).absolute()] if given else project.current().conf
    mine = [folder for folder in own if folder.resolve() != conf_dir.resolve()]
    for page in (folder / "train.yaml" for folder in mine):
        if page.is_file() and not (default := page.parent / "project" / "default.yaml").is_file():
            raise errors.ConfigError(
                f"{page}: is not read, as Andiron has its own: what it chooses belongs in "
                f"{default} (docs/from_lightning.md)"
            )
    pages = [
        folder / file.relative_to(conf_dir)
        for folder in mine
        for file in sorted(conf_dir.glob("*/**/*.yaml"))
    ]
    why = "is not read, as Andiron has its own: give it another name"
    if passed_over := [f"{page}: {why}" for page in pages if page.is_file()]:
        raise errors.ConfigError(passed_over)
    return [conf_dir, *mine, *project.shipped_conf_dirs()[1:]]


def groups(*conf_dirs: Path) -> Groups:
    """The choices of every config group, by group name."""
    files = [file for folder in conf_dirs for file in folder.glob("*/*.yaml")]
    choices: Groups = {}
    for group, option in sorted((file.parent.name, file.stem) for file in files):
        choices.setdefault(group, []).append(option)
    return choices

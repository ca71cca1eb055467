"""The folders that Hydra searches after `conf/`: the user's, then the lab's."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from andiron.plain import wings
from andiron.shell.config import project


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
    """Lets Hydra search these folders in the next compositions of this process."""
    BesideConf.folders = folders
    Plugins.instance().register(BesideConf)

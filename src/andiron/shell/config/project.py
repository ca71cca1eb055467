"""The user's project: `[tool.andiron]` of the nearest pyproject.toml above the working folder.

    [tool.andiron]
    conf = "conf"       # as --config-dir
    trust = ["mine"]    # packages whose classes a run folder may name

It is not looked for inside a run folder, and another user's is not used.
"""

import os
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.plain import readable, wings
from andiron.run_folder import RunFolder, is_sweep

FILE = "pyproject.toml"
MOST_BYTES = 2**18


@dataclass(frozen=True)
class Project:
    """A project's folder, from which its code is imported, and what its file names."""

    root: Path
    conf: tuple[Path, ...]
    trust: tuple[str, ...]

    @property
    def is_own(self) -> bool:
        """Whether the file and its folders belong to this user."""
        paths = self.root / FILE, self.root, *self.conf
        owners = {os.stat(path).st_uid for path in paths}
        return not hasattr(os, "getuid") or owners == {os.getuid()}


NONE = Project(Path(), (), ())


def default_conf_dir() -> Path:
    """The folder `conf`: inside the package in a wheel, at the top of a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "conf"
    return installed if installed.is_dir() else package.parents[1] / "conf"


def shipped_conf_dirs() -> list[Path]:
    """The folders `conf` of this package and, where it is installed, of the lab."""
    lab = wings.optional(f"{wings.LAB}.conf")
    return [default_conf_dir(), *map(Path, lab.__path__ if lab else ())]


def current() -> Project:
    """The user's own project around the working folder, or `NONE`.

    Raises: ConfigError for a file that cannot be read or has other entries.
    """
    project = _around(Path.cwd())
    return project if project is NONE or project.is_own else NONE


def enter(*, is_noted: bool) -> None:
    """Lets the project's code be imported, as Python does for a script; may note it on stderr.

    Raises: as `current`.
    """
    project = _around(Path.cwd())
    if project is NONE:
        return
    names = [*map(str, project.conf), *(f"trust {package}" for package in project.trust)]
    note = f"project {project.root}: {', '.join(names)}"
    if not project.is_own:
        note = f"{project.root / FILE}: not used, because it or a folder is another user's"
    elif str(project.root) not in sys.path:
        sys.path.insert(0, str(project.root))
    if is_noted:
        print(readable.printable(note), file=sys.stderr)


def config_dirs() -> list[Path]:
    """The config folders of the current composition; empty without one, which loads no Hydra."""
    hydra_config = sys.modules.get("hydra.core.hydra_config")
    if hydra_config is None or not hydra_config.HydraConfig.initialized():
        return []
    sources = hydra_config.HydraConfig.get().runtime.config_sources
    return [Path(source.path) for source in sources if source.schema == "file"]


def _around(folder: Path) -> Project:
    places = (folder, *folder.parents)
    for place in () if any(map(_is_of_runs, places)) else places:
        if (place / FILE).is_file() and (table := _table(place / FILE)) is not None:
            return _checked(place, table)
    return NONE


def _is_of_runs(folder: Path) -> bool:
    """Whether a folder is a sweep's, or has a configuration beside another file of a run."""
    run = RunFolder(folder)
    is_run = run.config.exists() and sum(map(Path.exists, run.own)) > 1
    return is_run or is_sweep(folder)


def _table(path: Path) -> Any:
    """The value of `[tool.andiron]` in a file; None without it."""
    try:
        return tomllib.loads(files.read_text(path, MOST_BYTES)).get("tool", {}).get("andiron")
    except PermissionError:  # another user's
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise errors.ConfigError(f"{path}: cannot be read: {error}; correct it") from error


def _checked(root: Path, table: Any) -> Project:
    file, entries = root / FILE, table if isinstance(table, dict) else {"": table}
    conf, trust = entries.get("conf"), entries.get("trust", [])
    is_right = isinstance(conf, str | None) and isinstance(trust, list)
    is_right = is_right and all(isinstance(name, str) and name.isidentifier() for name in trust)
    if not is_right or entries.keys() - {"conf", "trust"}:
        raise errors.ConfigError(
            f'{file}: [tool.andiron] holds {table}: conf = "a folder" and trust = ["a package"] '
            "are its entries; correct it"
        )
    folders = () if conf is None else (root / conf,)
    if folders and not folders[0].is_dir():
        raise errors.ConfigError(f"{folders[0]}: no such folder, and {file} names it")
    return Project(root, folders, tuple(trust))

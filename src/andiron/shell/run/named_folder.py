"""The run folder that a command names: by its path, or as `latest`."""

import glob
import itertools
import os
from pathlib import Path

from andiron import errors
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.run import status
from andiron.shell.run.log_file import is_held

OF_TRAINING = (Path("outputs"), Path("multirun"))
RUNS_BELOW = (  # as in conf/hydra/output
    "outputs/????-??-??/*", "multirun/????-??-??/*/*", "multirun/*/*",
)  # fmt: skip
LEVELS, MOST_FOLDERS = 4, 2000  # that are searched for other runs, and folders of a level
LATEST = "latest"


def run_folder_of(path: str | Path) -> RunFolder:
    """The run folder at `path`; for `latest`, the folder of the newest run.

    Raises: RunFolderError if it holds no run.
    """
    folder = RunFolder(newest("") if path == LATEST else absolute(path))
    if os.path.isfile(folder.config):
        return folder
    name = folder.config.name
    below = (f"*/{name}", f"*/*/{name}", f"*/*/*/{name}")  # in a sweep, in outputs, in multirun
    jobs = [path for pattern in below for path in _parents(pattern, folder.path)]
    why = f"there is no {name} in it" if os.path.isdir(folder.path) else "there is no such folder"
    remedy = f"name one of its {len(jobs)} runs, such as {jobs[0]}" if jobs else "name a run's"
    raise errors.RunFolderError(f"{path}: holds no run: {why}; {remedy} folder")


def absolute(path: str | Path) -> Path:
    """The absolute path.

    Raises: RunFolderError if `..` follows a link in it.
    """
    if "\0" in str(path):
        raise errors.RunFolderError(f"{path}: has a NUL character, as no path has; correct it")
    if files.is_ambiguous(path):
        raise errors.RunFolderError(
            f"{path}: leads elsewhere, because .. follows a link; give the folder itself"
        )
    return Path(os.path.abspath(path))


def newest(option: str = "resume=") -> Path:
    """The folder of the run that was last started or resumed, below the current directory.

    A run that ended before its first update does not count.
    Raises: RunFolderError if there is none, naming the `option` that is `latest`.
    """
    config = RunFolder(Path()).config.name
    paths = [path for pattern in RUNS_BELOW for path in _parents(f"{pattern}/{config}", Path.cwd())]
    paths += [Path.cwd() / path for path in elsewhere()]
    # a status that a full disk cut off has no start time: that run counts as the oldest
    paths.sort(key=lambda path: str(status.read(RunFolder(path)).get("started", "")), reverse=True)
    for path in paths:
        folder = RunFolder(path)
        if not status.is_untrained(folder) or is_held(folder.log):
            return path
    places = f"{' or '.join(RUNS_BELOW)}, or within {LEVELS} folders below here"
    raise errors.RunFolderError(
        f"{option}latest: no run in {places}; name its folder: {option}<run folder>"
    )


def elsewhere() -> list[Path]:
    """The run folders at most LEVELS below the current directory, outside of `OF_TRAINING`.

    MOST_FOLDERS of a level are searched, without links and hidden folders.
    """
    runs, level, status_file = list[Path](), [Path()], RunFolder(Path()).status
    for _ in range(LEVELS):
        below = (
            folder / name
            for folder in level
            for name in sorted(glob.glob("*/", root_dir=folder))
            if (folder / name) not in OF_TRAINING and not (folder / name).is_symlink()
        )
        folders = [*itertools.islice(below, MOST_FOLDERS)]
        level = []
        for folder in folders:
            (runs if (folder / status_file).is_file() else level).append(folder)
    return runs


def _parents(pattern: str, root: Path) -> list[Path]:
    """The folders with a file of this pattern, without the hidden ones of replaced runs."""
    return [root / Path(name).parent for name in sorted(glob.glob(pattern, root_dir=root))]

"""The run folder that a command names, by its path or as `latest`, and the runs below a folder."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.run import lab_options, run_record, status
from andiron.shell.run.log_file import is_held

OF_TRAINING = (Path("outputs"), Path("multirun"))
OF_DEBUG = Path("outputs/debug")
LEVELS, MOST_FOLDERS = 5, 2000  # that are searched for other runs, and folders of a level
LATEST = "latest"


def mirror() -> Any:
    """The lab's mirror of runs.

    Raises: ConfigError if it is not installed.
    """
    return lab_options.module("mirror", "the mirror of a run")


def run_folder_of(path: str | Path) -> RunFolder:
    """The run folder at `path`; for `latest`, the folder of the newest run.

    Raises: RunFolderError if it holds no run.
    """
    folder = RunFolder(newest("") if path == LATEST else absolute(path))
    if os.path.isfile(folder.config):
        return folder
    is_there = os.path.isdir(folder.path)
    why = f"there is no {folder.config.name} in it" if is_there else "there is no such folder"
    runs = run_folders([folder.path]) if is_there else []
    one = "a run's folder, or latest"
    if runs:
        one = f"one of its {len(runs)} runs, such as {runs[0].path}"
    raise errors.RunFolderError(f"{path}: holds no run: {why}; name {one}")


def absolute(path: str | Path, into: str | None = None) -> Path:
    """The absolute path; of the address of a mirror a new folder, `into` which it is fetched.

    Raises: RunFolderError if `..` follows a link in it, or nothing can be fetched.
    """
    if "://" in str(path):
        path = mirror().fetched(path, into)
    if "\0" in str(path):
        raise errors.RunFolderError(f"{path}: has a NUL character, as no path has; correct it")
    if files.is_ambiguous(path):
        raise errors.RunFolderError(
            f"{path}: leads elsewhere, because .. follows a link; give the folder itself"
        )
    return Path(os.path.abspath(path))


def newest(option: str = "resume=") -> Path:
    """The folder of the run that was last started or resumed, below the current directory.

    Runs of `debug=true`, and those that ended before their first update, do not count.
    Raises: RunFolderError if there is none, naming the `option` that is `latest`.
    """
    inside = [path for place in filter(Path.is_dir, OF_TRAINING) for path in _inner(place)]
    folders = run_folders(path for path in inside if path != OF_DEBUG)
    folders += map(RunFolder, elsewhere())
    # a status that a full disk cut off has no start time: that run counts as the oldest
    folders.sort(key=lambda folder: str(status.read(folder).get("started", "")), reverse=True)
    for folder in folders:
        is_trained = not status.is_untrained(folder) or is_held(folder.log)
        if folder.config.is_file() and is_trained:
            return Path.cwd() / folder.path
    places = f"{' or '.join(map(str, OF_TRAINING))}, or within {LEVELS} folders below here"
    raise errors.RunFolderError(
        f"{option}latest: no run in {places}; name its folder: {option}<run folder>"
    )


def elsewhere() -> list[Path]:
    """The run folders at most LEVELS below the current directory, outside of `OF_TRAINING`.

    MOST_FOLDERS of a level are searched.
    """
    below = [path for path in _inner(Path()) if path not in OF_TRAINING]
    return [folder.path for folder in _search(below, LEVELS, MOST_FOLDERS)]


def run_folders(roots: Iterable[Path]) -> list[RunFolder]:
    """The run folders at and below `roots`, ordered by name, each once.

    Links and hidden folders below `roots` are not followed. A folder that cannot be listed is
    included: it may hold a run.
    Raises: RunFolderError for a root that is not a folder.
    """
    by_path: dict[str, RunFolder] = {}
    for root in roots:
        if not root.is_dir():
            raise errors.RunFolderError(
                f"{root}: no such folder; give run folders, or folders that contain runs"
            )
        for folder in sorted(_search([root]), key=lambda folder: folder.path.parts):
            by_path.setdefault(os.path.realpath(folder.path), folder)
    return list(by_path.values())


def _search(
    level: list[Path], levels: int | None = None, most: int | None = None
) -> Iterator[RunFolder]:
    """The runs among these folders and those below, `levels` in all, `most` folders of each.

    Without `levels`, a folder that cannot be listed is included.
    """
    while level and levels != 0:
        below = []
        for path in level[:most]:
            folder = RunFolder(path)
            try:
                inner = _inner(path)
                # with a status, a damaged manifest counts too
                is_run = folder.manifest.is_file() and folder.status.is_file()
                if is_run or run_record.holds_run(folder):
                    yield folder
                    inner = [entry for entry in inner if not folder.owns(entry.name)]
                below += inner
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError:
                if levels is None:
                    yield folder
        level, levels = below, levels and levels - 1


def _inner(path: Path) -> list[Path]:
    """The folders in a folder, without links and hidden ones, by name."""
    with os.scandir(path) as entries:
        inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [path / name for name in sorted(inner) if not name.startswith(".")]

"""Run folders at any depth below other folders."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from andiron import errors
from andiron.run_folder import RunFolder

ANY = RunFolder(Path())
SIGNS = {ANY.status.name, ANY.manifest.name}  # a folder without either holds no run


def run_folders(roots: Iterable[Path]) -> list[RunFolder]:
    """The run folders among these folders and below them, in the order of their names, each once.

    Links and hidden folders below `roots` are not followed. A folder that cannot be listed counts
    as one that may hold a run.
    Raises: RunFolderError for a root that is no folder.
    """
    found: dict[str, RunFolder] = {}
    for root in roots:
        if not root.is_dir():
            raise errors.RunFolderError(
                f"{root}: there is no such folder; name run folders, or folders that hold some"
            )
        for folder in _below(root):
            found.setdefault(os.path.realpath(folder.path), folder)
    return list(found.values())


def _below(root: Path) -> Iterator[RunFolder]:
    waiting = [os.fspath(root)]
    while waiting:
        path = waiting.pop()
        try:
            with os.scandir(path) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError:
            yield RunFolder(Path(path))
            continue
        run = _run(path) if any(entry.name in SIGNS for entry in entries) else None
        if run is not None:
            yield run
        inner = [entry.path for entry in entries if _may_hold_runs(entry, run)]
        waiting += inner[::-1]


def _run(path: str) -> RunFolder | None:
    folder = RunFolder(Path(path))
    return folder if folder.holds_run() else None


def _may_hold_runs(entry: os.DirEntry[str], run: RunFolder | None) -> bool:
    if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
        return False
    return run is None or not run.owns(entry.name)

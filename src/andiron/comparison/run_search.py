"""Run folders at any depth below other folders."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from andiron import errors
from andiron.run import run_record
from andiron.run_folder import RunFolder

MANIFEST, STATUS = RunFolder(Path()).manifest.name, RunFolder(Path()).status.name


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
                f"{root}: no such folder; give run folders, or folders that contain runs"
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
        names, run = {entry.name for entry in entries}, RunFolder(Path(path))
        # a damaged manifest is listed too where a status is beside it
        if MANIFEST in names and (STATUS in names or run_record.holds_run(run)):
            yield run
            entries = [entry for entry in entries if not run.owns(entry.name)]
        waiting += [
            entry.path
            for entry in reversed(entries)
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
        ]

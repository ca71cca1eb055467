"""Run folders at any depth below other folders."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record

MANIFEST, STATUS = RunFolder(Path()).manifest.name, RunFolder(Path()).status.name


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
        for folder in _folders_below(root):
            by_path.setdefault(os.path.realpath(folder.path), folder)
    return list(by_path.values())


def _folders_below(root: Path) -> Iterator[RunFolder]:
    pending = [os.fspath(root)]
    while pending:
        path = pending.pop()
        try:
            with os.scandir(path) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError:
            yield RunFolder(Path(path))
            continue
        names, run = {entry.name for entry in entries}, RunFolder(Path(path))
        # with a status, a damaged manifest counts too
        if MANIFEST in names and (STATUS in names or run_record.holds_run(run)):
            yield run
            entries = [entry for entry in entries if not run.owns(entry.name)]
        pending += [
            entry.path
            for entry in reversed(entries)
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
        ]

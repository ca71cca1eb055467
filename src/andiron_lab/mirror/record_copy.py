"""A copy of a run's record for its mirror: what a resume in another place needs.

The results of a finished run, event files and the log are left out, and the copy of the manifest
lists only what was copied.
"""

import dataclasses
from contextlib import suppress
from pathlib import Path

from andiron import errors
from andiron.disk import checksums, files
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record

MOST_RECORD_BYTES = 64 * 2**20  # of one file, such as a patch


def record_files(folder: RunFolder) -> dict[str, bytes]:
    """The content of each recorded file by its name, and last of the manifest that lists them.

    Raises: DataError while a file is being replaced: try again.
    """
    manifest = run_record.manifest_of(folder)
    content: dict[str, bytes] = {}
    for name, entries in manifest.entries.items():
        if not is_copied(name) or not (folder.path / name).is_file():
            continue
        content[name] = files.read_bytes(folder.path / name, MOST_RECORD_BYTES)
        if checksums.entry_of(content[name]) not in entries:
            raise errors.DataError(f"{folder.path / name}: is not as the run's manifest lists it")
    kept = {name: manifest.entries[name] for name in content}
    with suppress(OSError, ValueError):
        content[folder.status.name] = files.read_bytes(folder.status)
    copied = dataclasses.replace(manifest, entries=kept, written=[folder.metrics.name])
    copied.write(folder, lambda _, text: content.update({folder.manifest.name: text}))
    return content


def is_copied(name: str) -> bool:
    """Whether a mirror has a file of this name in the record of a run."""
    folder = RunFolder(Path())
    if name in (folder.status.name, folder.metrics.name, folder.manifest.name):
        return True
    is_result = name == folder.summary.name or name.endswith(".safetensors")
    return folder.records(name) and not is_result

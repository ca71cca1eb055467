"""The command that shows some runs in TensorBoard.

>>> command([RunFolder(Path("a b")), RunFolder(Path("c"))])
"tensorboard --logdir_spec 'a b:a b/tensorboard,c:c/tensorboard'"
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from andiron import errors
from andiron.run_folder import RunFolder

MOST_BYTES = 100_000  # of one argument; Linux takes 131,072


def command(folders: Sequence[RunFolder]) -> str:
    """The command for a shell; several runs are named by their folders, as the user named them.

    Raises: SelectionError for a name that TensorBoard's option cannot hold, or too many runs.
    """
    for folder in folders:
        name = os.fspath(folder.path)
        if errors.printable(name) != name or "\n" in name or "," in name:
            raise errors.SelectionError(
                f"{folder.path}: a comma or a control character in the name of a folder cannot be "
                "given to TensorBoard; rename the folder"
            )
    if len(folders) == 1:
        return shlex.join(["tensorboard", "--logdir", _path(folders[0])])
    spec = ",".join(f"{_name(folder.path)}:{_path(folder)}" for folder in folders)
    if len(spec.encode()) > MOST_BYTES:
        raise errors.SelectionError(
            f"{len(folders):,} runs are too many for one command; choose fewer with --where, "
            "or use `tensorboard --logdir` with a folder that holds them"
        )
    return shlex.join(["tensorboard", "--logdir_spec", spec])


def _path(folder: RunFolder) -> str:
    path = os.fspath(folder.tensorboard)
    return f"./{path}" if path.startswith(("~", "-")) else path  # neither a home nor an option


def _name(path: Path) -> str:
    """A run's name in TensorBoard: its path, without what would end the name."""
    return os.fspath(path).strip("/").replace(":", "_")

"""The checkpoints of a run: whether there is one to resume from, and the one to fork."""

from typing import Any

from andiron.disk import files
from andiron.interrupter import Interrupter
from andiron.run_folder import RunFolder
from andiron.shell.config import node_checks
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust


def has_checkpoint(
    checkpoint: Any, folder: RunFolder, interrupter: Interrupter, trusted: Trust | None = None
) -> bool:
    """Whether a checkpoint exists, intact or damaged; imports torch only for a user's own store.

    With `trusted`, the option `checkpoint` was read from the folder.
    Raises: ConfigError; DataError if the store cannot be read.
    """
    if store_of(checkpoint) is None:
        return folder.has_checkpoint()
    with interrupter.held_back():  # an exception within torch's import can abort the process
        from andiron.checkpoint import directory
        from andiron.shell.assembly import configured_store
    store = configured_store.store(checkpoint, folder.checkpoints, trusted)
    return any(name.startswith("step-") for name in directory.entries(store))


def fork_point(text: str, trusted: Trust) -> tuple[RunFolder, Train, str]:
    """The parent's folder and options, and the checkpoint that the option `fork_from` names.

    Raises: as `fork_point.named`.
    """
    from andiron.shell.assembly import fork_point as assembly  # imports torch

    point = assembly.named(text, trusted)
    return point.folder, point.parent, point.text


def store_of(checkpoint: object) -> Any:
    """The part of the option `checkpoint` that names a store; None for the run's own folder."""
    if not isinstance(checkpoint, dict):
        return None
    is_shipped = node_checks.is_shipped(str(checkpoint.get("_target_")))
    return checkpoint.get("store") if is_shipped else checkpoint  # a strategy may bring its store


def recorded_store(folder: RunFolder) -> Any:
    """`store_of` for the run's record; None without a record."""
    try:
        return store_of(files.read_json(folder.config)["checkpoint"])
    except (OSError, ValueError, TypeError, KeyError):
        return None

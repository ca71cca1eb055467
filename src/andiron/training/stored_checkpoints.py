"""Whether a run has a checkpoint to resume from, in the store that its configuration names."""

from typing import Any

from andiron.config import node_checks
from andiron.config.schema import Train
from andiron.config.trust import Trust
from andiron.disk import files
from andiron.interrupter import Interrupter
from andiron.run_folder import RunFolder


def has_checkpoint(
    config: Train, folder: RunFolder, interrupter: Interrupter, trusted: Trust | None = None
) -> bool:
    """Whether a checkpoint exists, intact or damaged; imports torch only for a user's own store."""
    if store_of(config.checkpoint) is None:
        return folder.has_checkpoint()
    with interrupter.held_back():  # an exception within torch's import can abort the process
        from andiron.training import experiment
    return experiment.has_checkpoint(config, folder, trusted)


def store_of(checkpoint: Any) -> Any:
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

"""The checkpoint store of a run: the one that its configuration names, or its own folder."""

from pathlib import Path

from andiron.assembly import target_kinds, targets
from andiron.checkpoint import Checkpointing, LocalStore, Store
from andiron.config.schema import Train
from andiron.config.trust import Trust


def store(config: Train, checkpoints: Path, trusted: Trust | None = None) -> Store:
    """The store of a run's checkpoints, which `checkpoints` is the folder or the name of.

    With `trusted`, the configuration was read from a run folder, and is checked first.
    Raises: ConfigError.
    """
    if trusted is not None:
        target_kinds.check(config, trusted)
    node = config.checkpoint
    made = node and targets.build("checkpoint", node, direction="lowest")
    return made.store(checkpoints) if isinstance(made, Checkpointing) else LocalStore(checkpoints)

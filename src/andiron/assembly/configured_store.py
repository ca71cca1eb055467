"""The checkpoint store of a run: the configured one, or its own folder."""

from pathlib import Path

from andiron.assembly import target_kinds, targets
from andiron.checkpoint import Checkpointing, LocalStore, Store
from andiron.config.schema import Train
from andiron.config.trust import Trust


def store(config: Train, checkpoints: Path, trusted: Trust | None = None) -> Store:
    """The store of a run's checkpoints; `checkpoints` is their folder or name.

    With `trusted`, the configuration comes from a run folder and is checked first.
    Raises: ConfigError.
    """
    if trusted is not None:
        target_kinds.check(config, trusted)
    node = config.checkpoint
    built = node and targets.build("checkpoint", node, direction="lowest")
    return built.store(checkpoints) if isinstance(built, Checkpointing) else LocalStore(checkpoints)

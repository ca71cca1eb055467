"""The checkpoint store of a run: the configured one, or its own folder."""

from pathlib import Path

from andiron.checkpoint import Checkpointing, LocalStore, Store
from andiron.shell.assembly import target_kinds, targets
from andiron.shell.config.trust import Trust


def store(node: targets.Node | None, checkpoints: Path, trusted: Trust | None = None) -> Store:
    """The store that the option `checkpoint` names; `checkpoints` is its folder or name.

    With `trusted`, the node comes from a run folder and is checked first.
    Raises: ConfigError.
    """
    if trusted is not None:
        target_kinds.check({"checkpoint": node}, trusted)
    built = node and targets.build("checkpoint", node, direction="lowest")
    return built.store(checkpoints) if isinstance(built, Checkpointing) else LocalStore(checkpoints)

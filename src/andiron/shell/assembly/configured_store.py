"""The checkpoint store of a run: the configured one, or its own folder; and its mirror."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from andiron.checkpoint import Checkpointing, LocalStore, Store
from andiron.run_folder import RunFolder
from andiron.shell.assembly import target_kinds, targets
from andiron.shell.config.trust import Trust
from andiron.shell.run import named_folder


def store(node: targets.Node | None, checkpoints: Path, trusted: Trust | None = None) -> Store:
    """The store that the option `checkpoint` names; `checkpoints` is its folder or name.

    With `trusted`, the node comes from a run folder and is checked first.
    Raises: ConfigError.
    """
    if trusted is not None:
        target_kinds.check({"checkpoint": node}, trusted)
    built = node and targets.build("checkpoint", node, direction="lowest")
    return built.store(checkpoints) if isinstance(built, Checkpointing) else LocalStore(checkpoints)


def mirrored(node: targets.Node | None, folder: RunFolder) -> AbstractContextManager[None]:
    """The mirror of a run while it trains; nothing without `checkpoint.mirror`.

    Raises: ConfigError without the lab; on entering, for an address that cannot be used.
    """
    if (node or {}).get("mirror") is None:
        return nullcontext()
    mirror: AbstractContextManager[None] = named_folder.mirror().accompanying(node, folder)
    return mirror

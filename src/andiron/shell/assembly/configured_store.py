"""The checkpoints of a run: which to keep, in the configured store or its own folder; its mirror.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from andiron.checkpoint import Checkpointing, LocalStore, Store
from andiron.metrics.direction import directions_of
from andiron.plain import improvement
from andiron.plain.plain_values import Named
from andiron.run_folder import RunFolder
from andiron.shell.assembly import target_kinds, targets
from andiron.shell.config.trust import Trust
from andiron.shell.run import named_folder


def direction(node: Named, metrics: Iterable[Any]) -> str:
    """The direction in which the metric of a node improves, if it is one of these."""
    metric = str(node.get("metric"))
    return improvement.direction_of(metric, directions_of(metrics)) or "lowest"


def checkpointing(node: Named, metrics: Iterable[object] = ()) -> Checkpointing:
    """The configured strategy; its metric gives the direction."""
    rule = targets.build("checkpoint", node, direction=direction(node, metrics))
    if isinstance(rule, Checkpointing):
        return rule
    targets.check_kind(
        "checkpoint", node, rule, callable(rule),
        "a function from the saved checkpoints to the names that are kept",
    )  # fmt: skip
    return Checkpointing(rule)


def store(node: Named | None, checkpoints: Path, trusted: Trust | None = None) -> Store:
    """The store that the option `checkpoint` names; `checkpoints` is its folder or name.

    With `trusted`, the node comes from a run folder and is checked first.
    Raises: ConfigError.
    """
    if trusted is not None:
        target_kinds.check({"checkpoint": node}, trusted)
    return checkpointing(node).store(checkpoints) if node else LocalStore(checkpoints)


def mirrored(node: Named | None, folder: RunFolder) -> AbstractContextManager[None]:
    """The mirror of a run while it trains; nothing without `checkpoint.mirror`.

    Raises: ConfigError without the lab; on entering, for an address that cannot be used.
    """
    if (node or {}).get("mirror") is None:
        return nullcontext()
    mirror: AbstractContextManager[None] = named_folder.mirror().accompanying(node, folder)
    return mirror

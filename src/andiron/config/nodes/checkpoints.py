"""When checkpoints are made, and which of them stay."""

from typing import Literal

from andiron.config.nodes.kinds import Count, Positive, describes


@describes("andiron.checkpoint.checkpointing")
class Checkpointing:
    last: Count = 2
    metric: str | None = "loss"
    split: Literal["train", "valid"] = "valid"
    direction: Literal["lowest", "highest"] | None = "lowest"
    keep_every_updates: Count | None = None
    every_updates: Count | None = None
    every_epochs: Count | None = 1
    every_minutes: Positive | None = None

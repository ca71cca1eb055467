"""Rules that end a run before its last epoch."""

from typing import Annotated, Literal

from pydantic import Field

from andiron.config.nodes.kinds import Count, NonNegative, describes

Limit = Annotated[float, Field(allow_inf_nan=False)]


@describes("andiron.learner.EarlyStopping")
class EarlyStopping:
    metric: str
    split: str = "valid"
    direction: Literal["lowest", "highest"] | None = "lowest"
    patience: Count | None = None
    min_delta: NonNegative = 0.0
    min_delta_mode: Literal["absolute", "relative"] = "absolute"
    goal: Limit | None = None
    divergence: Limit | None = None
    restores_best: bool = False

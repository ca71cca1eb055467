"""Learning rate schedules; a null horizon is the length of the run."""

from typing import Annotated

from pydantic import Field

from andiron.config.nodes.kinds import Count, NonNegative, Positive, describes


@describes("andiron.schedules.Constant")
class Constant:
    lr: Positive


@describes("andiron.schedules.Linear")
class Linear:
    initial_lr: Positive
    final_lr: NonNegative
    num_updates: Count | None


@describes("andiron.schedules.Cosine")
class Cosine:
    initial_lr: Positive
    min_lr: NonNegative
    num_updates: Count | None


@describes("andiron.schedules.Exponential")
class Exponential:
    initial_lr: Positive
    gamma: Annotated[float, Field(gt=0, le=1)]


@describes("andiron.schedules.Noam")
class Noam:
    factor: Positive
    warmup_updates: Count
    model_size: Count


@describes("andiron.schedules.Step")
class Step:
    initial_lr: Positive
    step_size: Count
    gamma: Annotated[float, Field(gt=0, le=1)]

"""Learning rate schedules; a null horizon is the length of the run, or of the part of it that a schedule has."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from andiron.config.nodes.kinds import Count, Fraction, NonNegative, Positive, describes

EPOCHS = re.compile(r"(?=.*[1-9])(\d+(?:\.\d+)?)epochs?")  # 2epochs, 0.5epochs, 1epoch; never 0


def _horizon(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise PydanticCustomError("horizon", "Input should be greater than or equal to 1")
        return value
    if isinstance(value, str) and EPOCHS.fullmatch(value):
        return value
    raise PydanticCustomError(
        "horizon", "Input should be a number of updates (100) or of epochs (2epochs, 0.5epochs)"
    )


def _inner(value: Any) -> dict[str, Any]:
    if (
        isinstance(value, dict) and "_target_" in value
    ):  # its arguments are checked as those of any node
        return value
    raise PydanticCustomError("inner", "Input should be a schedule: a _target_ and its arguments")


def _inners(value: Any) -> list[Any]:
    if (
        isinstance(value, list)
        and value
        and all(isinstance(each, dict) and "_target_" in each for each in value)
    ):
        return value
    raise PydanticCustomError(
        "inner", "Input should be a list of schedules, each a _target_ and its arguments"
    )


Horizon = Annotated[int | str, PlainValidator(_horizon)]
Inner = Annotated[dict[str, Any], PlainValidator(_inner)]
Inners = Annotated[list[Any], PlainValidator(_inners)]


@describes("andiron.schedules.Constant")
class Constant:
    lr: Positive


@describes("andiron.schedules.Linear")
class Linear:
    initial_lr: Positive
    final_lr: NonNegative
    num_updates: Horizon | None


@describes("andiron.schedules.Polynomial")
class Polynomial:
    initial_lr: Positive
    final_lr: NonNegative
    power: Positive
    num_updates: Horizon | None


@describes("andiron.schedules.Cosine")
class Cosine:
    initial_lr: Positive
    min_lr: NonNegative
    num_updates: Horizon | None


@describes("andiron.schedules.Exponential")
class Exponential:
    initial_lr: Positive
    gamma: Annotated[float, Field(gt=0, le=1)]


@describes("andiron.schedules.Noam")
class Noam:
    factor: Positive
    warmup_updates: Horizon
    model_size: Count


@describes("andiron.schedules.Step")
class Step:
    initial_lr: Positive
    step_size: Horizon
    gamma: Annotated[float, Field(gt=0, le=1)]


@describes("andiron.schedules.OneCycle")
class OneCycle:
    max_lr: Positive
    warmup_fraction: Annotated[float, Field(ge=0, le=1)]
    initial_divisor: Positive
    final_divisor: Positive
    shape: Literal["cosine", "linear"]
    num_updates: Horizon | None


@describes("andiron.schedules.CosineRestarts")
class CosineRestarts:
    initial_lr: Positive
    min_lr: NonNegative
    first_cycle_updates: Horizon
    multiplier: Count


@describes("andiron.schedules.WarmupStableDecay")
class WarmupStableDecay:
    lr: Positive
    min_lr: NonNegative
    warmup_updates: Horizon
    decay_updates: Horizon
    shape: Literal["linear", "sqrt"]
    num_updates: Horizon | None


@describes("andiron.schedules.Plateau")
class Plateau:
    initial_lr: Positive
    min_lr: NonNegative
    factor: Annotated[float, Field(gt=0, lt=1)]
    patience: Annotated[int, Field(ge=0)]
    threshold: Fraction
    metric: str
    split: Literal["train", "valid"]
    direction: Literal["lowest", "highest"]


@describes("andiron.schedules.Sequential")
class Sequential:
    schedules: Inners
    milestones: tuple[Horizon, ...]


@describes("andiron.schedules.Composed")
class Composed:
    schedules: Inners
    reduction: Literal["product", "sum", "mean"]


@describes("andiron.schedules.Warmup")
class Warmup:
    schedule: Inner
    warmup_updates: Horizon

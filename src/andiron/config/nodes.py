"""What each shipped `_target_` takes: its arguments, their types and ranges, by dotted name.

A test holds every class here to the signature it describes. Arguments that the run supplies itself (sizes that come
from the data, the horizon of a schedule) may be left null in the config.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

Fraction = Annotated[float, Field(ge=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Validation = Annotated[float, Field(gt=0, lt=1)] | Literal["test"]

SCHEMAS: dict[str, type] = {}


def describes(target: str) -> Any:
    """Registers the decorated class as the schema of the callable at `target`."""

    def register(cls: type) -> type:
        cls.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]
        SCHEMAS[target] = dataclass(frozen=True, kw_only=True)(cls)
        return SCHEMAS[target]

    return register


@describes("andiron.data.digits")
class Digits:
    valid: Validation
    split_seed: Seed


@describes("andiron.data.mnist")
class Mnist:
    root: str
    valid: Validation
    split_seed: Seed


@describes("andiron.data.fashion_mnist")
class FashionMnist:
    root: str
    valid: Validation
    split_seed: Seed


@describes("andiron.models.MLP")
class MLP:
    hidden: tuple[Count, ...]
    dropout: Fraction


@describes("andiron.models.ConvNet")
class ConvNet:
    hidden: Count
    dropout: Fraction


@describes("torch.optim.SGD")
class SGD:
    momentum: NonNegative = 0.0
    dampening: NonNegative = 0.0
    weight_decay: NonNegative = 0.0
    nesterov: bool = False


@describes("torch.optim.Adam")
class Adam:
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0.0
    amsgrad: bool = False


@describes("torch.optim.AdamW")
class AdamW:
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 1e-2
    amsgrad: bool = False


@describes("torch.optim.RMSprop")
class RMSprop:
    alpha: Fraction = 0.99
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0.0
    momentum: NonNegative = 0.0
    centered: bool = False


@describes("torch.optim.Adagrad")
class Adagrad:
    lr_decay: NonNegative = 0.0
    weight_decay: NonNegative = 0.0
    initial_accumulator_value: NonNegative = 0.0
    eps: NonNegative = 1e-10


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


@describes("andiron.metrics.Loss")
class Loss:
    pass


@describes("andiron.metrics.Accuracy")
class Accuracy:
    pass


@describes("andiron.checkpoint.last_and_best")
class LastAndBest:
    last: Count
    metric: str
    split: Literal["train", "valid"]
    direction: Literal["lowest", "highest"]


@describes("andiron.render.auto")
class Auto:
    pass


@describes("andiron.render.Live")
class Live:
    pass


@describes("andiron.render.Plain")
class Plain:
    pass

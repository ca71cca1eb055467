"""The kinds of values that arguments have, and the register of what is known of each `_target_`."""

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

# of what a `_target_` may name and not every user has: by module, the package that brings it
EXTRAS = {
    "lion_pytorch": "lion-pytorch",
    "schedulefree": "schedulefree",
    "torchmetrics": "torchmetrics",
}

SCHEMAS: dict[str, type] = {}


def describes(target: str) -> Any:
    """Registers the decorated class as the schema of the callable at `target`."""

    def register(cls: type) -> type:
        cls.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]
        SCHEMAS[target] = dataclass(frozen=True, kw_only=True)(cls)
        return SCHEMAS[target]

    return register

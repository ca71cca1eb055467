"""Rules that give parameters to groups; what else stands beside them is an option of the group's optimizer."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from andiron.config.nodes.kinds import Count, Positive, describes
from andiron.config.nodes.schedules import Horizon

Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Clip = (
    Limit
    | Annotated[
        dict[Literal["global_norm", "norm", "value"], Limit], Field(min_length=1, max_length=1)
    ]
)


@dataclass(frozen=True, kw_only=True)
class Match:
    """What a rule looks at; every criterion given must be met, of several values in one any will do."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)

    name: str | None = None  # a regular expression
    parameters: tuple[str, ...] | None = None
    module: str | tuple[str, ...] | None = None
    rank: Annotated[int, Field(ge=0)] | tuple[Annotated[int, Field(ge=0)], ...] | None = None
    tag: str | tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ParamGroup:
    """A rule, and how what it claims is updated. `match` and `exclude` are a `Match`, or alone the text of its `name`."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)

    match: str | dict[str, Any]
    exclude: str | dict[str, Any] | None = None
    optimizer: dict[str, Any] | None = None  # a node
    lr: Positive | None = None
    lr_scale: Positive | None = None
    schedule: dict[str, Any] | None = None  # a node
    clip: Clip | None = None
    every: Count = 1
    frozen: bool | Horizon = False  # for good, or until then


@describes("andiron.optim.layerwise")
class Layerwise:
    decay: Annotated[float, Field(gt=0, le=1)]
    pattern: str | None

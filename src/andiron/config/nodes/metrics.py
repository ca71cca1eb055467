"""Metrics of regressions and sequences, one function's, and torchmetrics'."""

from typing import Annotated, Any, Literal

from pydantic import Field

from andiron.config.nodes.kinds import describes

Average = Literal["uniform", "none"]
Token = Annotated[int, Field(ge=0)]


@describes("andiron.metrics.MeanAbsoluteError")
class MeanAbsoluteError:
    average: Average


@describes("andiron.metrics.MeanSquaredError")
class MeanSquaredError:
    average: Average


@describes("andiron.metrics.RootMeanSquaredError")
class RootMeanSquaredError:
    average: Average


@describes("andiron.metrics.R2")
class R2:
    average: Average


@describes("andiron.metrics.ExplainedVariance")
class ExplainedVariance:
    average: Average


@describes("andiron.metrics.Perplexity")
class Perplexity:
    pass


@describes("andiron.metrics.BitsPerByte")
class BitsPerByte:
    pass


@describes("andiron.metrics.CharacterErrorRate")
class CharacterErrorRate:
    end: Token | None


@describes("andiron.metrics.WordErrorRate")
class WordErrorRate:
    separator: Token | Annotated[tuple[Token, ...], Field(min_length=1)]
    end: Token | None


@describes("andiron.metrics.Mean")
class Mean:
    of: str  # a dotted name
    higher_is_better: bool


@describes("andiron.metrics.Torchmetrics")
class Torchmetrics:
    metric: dict[str, Any]  # a node
    higher_is_better: bool | None = None

"""Metrics of a regression: how far the values given lie from their targets, output by output or on the average."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from andiron import errors
from andiron.protocols import Values

Average = Literal[
    "uniform", "none"
]  # the mean over the outputs, or each under its own name: output_0, output_1, ...


@dataclass(kw_only=True)
class MeanAbsoluteError:
    """mean |y - y'|, in the unit of the targets."""

    name: str = "mae"
    average: Average = "uniform"
    higher_is_better = False
    gathers = False

    def __post_init__(self) -> None:
        _check(self.average)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        targets, differences = _targets_and_differences(self.name, item)
        return differences.abs().sum(0), _count(targets)

    def value(self, *parts: Tensor) -> float | Values | None:
        return _averaged(_mean(*parts), self.average)


@dataclass(kw_only=True)
class MeanSquaredError:
    """mean (y - y')^2, in the square of the targets' unit."""

    name: str = "mse"
    average: Average = "uniform"
    higher_is_better = False
    gathers = False

    def __post_init__(self) -> None:
        _check(self.average)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        targets, differences = _targets_and_differences(self.name, item)
        return differences.square().sum(0), _count(targets)

    def value(self, *parts: Tensor) -> float | Values | None:
        return _averaged(_mean(*parts), self.average)


@dataclass(kw_only=True)
class RootMeanSquaredError:
    """sqrt(mean (y - y')^2), in the unit of the targets; of several outputs, the mean of their roots."""

    name: str = "rmse"
    average: Average = "uniform"
    higher_is_better = False
    gathers = False

    def __post_init__(self) -> None:
        _check(self.average)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        targets, differences = _targets_and_differences(self.name, item)
        return differences.square().sum(0), _count(targets)

    def value(self, *parts: Tensor) -> float | Values | None:
        return _averaged(_mean(*parts).sqrt(), self.average)


@dataclass(kw_only=True)
class R2:
    """The coefficient of determination, 1 - sum (y - y')^2 / sum (y - mean y)^2.

    Undefined where the targets do not vary: such an output is left out, and so is an average that it belongs to.
    Each batch leaves a row of moments, not sums of squares, which lose their digits where targets lie far from 0. With
    float64, 14 are right if the mean is 10^3 times the standard deviation, 11 at 10^6 (of sums of squares: 4).
    """

    name: str = "r2"
    average: Average = "uniform"
    higher_is_better = True
    gathers = True

    def __post_init__(self) -> None:
        _check(self.average)

    def __call__(self, item: Any) -> tuple[Tensor, ...]:
        return (_moments(*_targets_and_differences(self.name, item)),)

    def value(self, *parts: Tensor) -> float | Values | None:
        counts, means, (total, spread) = _joined(parts[0])
        residual = spread + counts[1] * means[1] ** 2
        return _averaged(1 - residual / total, self.average, defined=total != 0)


@dataclass(kw_only=True)
class ExplainedVariance:
    """1 - Var(y - y') / Var(y): as R2, but a constant offset of the values given costs nothing.

    Undefined where the targets do not vary, and as exact far from 0, both as for R2.
    """

    name: str = "explained_variance"
    average: Average = "uniform"
    higher_is_better = True
    gathers = True

    def __post_init__(self) -> None:
        _check(self.average)

    def __call__(self, item: Any) -> tuple[Tensor, ...]:
        return (_moments(*_targets_and_differences(self.name, item)),)

    def value(self, *parts: Tensor) -> float | Values | None:
        total, unexplained = _joined(parts[0])[2]
        return _averaged(1 - unexplained / total, self.average, defined=total != 0)


def _check(average: str) -> None:
    if average not in ("uniform", "none"):
        hint = errors.nearest(average, ("uniform", "none"))
        raise ValueError(
            f"average={average}: should be uniform (the mean over the outputs) or none (each by itself){hint}"
        )


def _targets_and_differences(
    name: str, item: Any
) -> tuple[Float[Tensor, "batch outputs"], Float[Tensor, "batch outputs"]]:
    """y and y - y', in float64 where the device has it."""
    output, targets = item.output, item.targets
    if output.shape != targets.shape:  # they might broadcast, to a number that means nothing
        found = f"an output {list(output.shape)} and targets {list(targets.shape)}"
        raise errors.MismatchError(
            f"{name}: measures a value against each target, but has {found}; it is for regression"
        )
    kind = torch.float32 if targets.device.type == "mps" else torch.float64
    targets = targets.to(kind).reshape(len(targets), -1)
    return targets, targets - output.to(kind).reshape(len(targets), -1)


def _count(targets: Float[Tensor, "batch outputs"]) -> Float[Tensor, ""]:
    """Made on the device: a number sent there would be waited for."""
    return targets.new_full((), len(targets))


def _mean(total: Float[Tensor, " outputs"], count: Float[Tensor, ""]) -> Float[Tensor, " outputs"]:
    return total / count


def _moments(
    targets: Float[Tensor, "batch outputs"], differences: Float[Tensor, "batch outputs"]
) -> Float[Tensor, "1 3 2 outputs"]:
    """Of one batch: count, mean, and sum of squared deviations from it, each of the targets and of the differences."""
    values = torch.stack([targets, differences], dim=1)
    shifted = (
        values - values[0]
    )  # the mean of equal values would be rounded, and they would seem to vary
    mean = shifted.mean(0)
    count = _count(targets).expand_as(mean)
    return torch.stack([count, values[0] + mean, (shifted - mean).square().sum(0)])[None]


def _joined(
    moments: Float[Tensor, "batches 3 2 outputs"],
) -> tuple[Float[Tensor, "2 outputs"], Float[Tensor, "2 outputs"], Float[Tensor, "2 outputs"]]:
    """The moments of all batches from those of each: S = sum_b S_b + sum_b n_b (m_b - m)^2.

    Source: Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
    """
    counts, means, spreads = moments.double().unbind(1)
    count = counts.sum(0)
    shifted = means - means[0]
    mean = (counts * shifted).sum(0) / count
    return count, means[0] + mean, spreads.sum(0) + (counts * (shifted - mean).square()).sum(0)


def _averaged(
    scores: Float[Tensor, " outputs"], average: Average, *, defined: Tensor | None = None
) -> float | Values | None:
    """The mean of the scores, None if one is undefined; or each defined score by the name of its output."""
    known = [True] * len(scores) if defined is None else defined.tolist()
    if average == "uniform":
        return float(scores.mean()) if all(known) else None
    return {
        f"output_{number}": score for number, score in enumerate(scores.tolist()) if known[number]
    }

"""Errors of a regression and the explained variance, output by output or averaged.

IGNORED targets do not count; an output without a target that counts has no value.

>>> from andiron.outputs import RegressionOutput
>>> item = RegressionOutput(torch.tensor(0.0), torch.tensor([[1.0], [5.0]]), torch.zeros(2, 1))
>>> metric = MeanAbsoluteError()
>>> metric.value(*metric(item))
3.0
"""

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from andiron import errors
from andiron.outputs import Scalar, known_targets, sum_dtype
from andiron.protocols import Parts, Result

# the mean over the outputs, or each by its name: output_0, output_1, ...
Average = Literal["uniform", "none"]
AVERAGES = get_args(Average)
Batch = Float[Tensor, "batch outputs"]
Outputs = Float[Tensor, " outputs"]
Known = Bool[Tensor, "batch outputs"] | None


@dataclass(kw_only=True)
class RegressionError:
    """The mean error of each output, averaged over the outputs; abstract."""

    name: str = ""
    average: Average = "uniform"
    higher_is_better = False
    error = staticmethod(torch.square)  # of a value, from its difference to the target
    scale = staticmethod(torch.positive)  # of the mean error: the same

    def __call__(self, item: object) -> Parts:
        targets, differences, known = _compared(self.name, item)
        return self.error(differences).sum(0), _count(targets, known)

    def value(self, total: Outputs, count: Outputs | Scalar) -> Result:
        defined = (count > 0).expand_as(total)
        return _averaged(self.scale(total / count), self.average, defined)


@dataclass(kw_only=True)
class MeanAbsoluteError(RegressionError):
    """mean |y - y'|, in the unit of the targets."""

    name: str = "mae"
    error = staticmethod(torch.abs)


@dataclass(kw_only=True)
class MeanSquaredError(RegressionError):
    """mean (y - y')^2, in the square of the targets' unit."""

    name: str = "mse"


@dataclass(kw_only=True)
class RootMeanSquaredError(RegressionError):
    """sqrt(mean (y - y')^2), in the unit of the targets; averaged after the root."""

    name: str = "rmse"
    scale = staticmethod(torch.sqrt)


@dataclass(kw_only=True)
class Explained(ABC):
    """1 - residual / sum (y - mean y)^2; abstract.

    Undefined for constant targets: such an output, and an average with it, has no value. Each batch
    gives a row of moments, not sums of squares, which lose digits if the mean is far from 0: of
    the 16 digits of float64, 14 are right if the mean is 10^3 standard deviations, 11 at 10^6 (with
    sums of squares: 4).
    """

    name: str = ""
    average: Average = "uniform"
    higher_is_better = True
    gathers = True

    def __call__(self, item: Any) -> Parts:
        return (_moments(*_compared(self.name, item)),)

    def value(self, moments: Float[Tensor, "batches 3 2 outputs"]) -> Result:
        count, mean, (total, residual) = _joined(moments)
        residual = residual + self.offset(count[1], mean[1])
        return _averaged(1 - residual / total, self.average, total > 0)

    @abstractmethod
    def offset(self, count: Tensor, mean: Tensor) -> Tensor | float:
        """The residual of a constant offset: `mean` of the differences over `count` targets."""


@dataclass(kw_only=True)
class R2(Explained):
    """The coefficient of determination, 1 - sum (y - y')^2 / sum (y - mean y)^2."""

    name: str = "r2"

    def offset(self, count: Tensor, mean: Tensor) -> Tensor:
        return count * mean**2


@dataclass(kw_only=True)
class ExplainedVariance(Explained):
    """1 - Var(y - y') / Var(y): as R2, but a constant offset of the predictions costs nothing."""

    name: str = "explained_variance"

    def offset(self, count: Tensor, mean: Tensor) -> float:
        return 0.0


def _compared(name: str, item: Any) -> tuple[Batch, Batch, Known]:
    """y and y - y', in float64 where the device has it; the targets that count, None for all.

    Both are 0 for an IGNORED target.
    """
    output, targets = item.output, item.targets
    if output.shape != targets.shape:  # they might broadcast
        raise errors.MismatchError(
            f"{name}: measures a value against each target, but has an output {list(output.shape)} "
            f"and targets {list(targets.shape)}; it is for regression"
        )
    kind = sum_dtype(targets.device)
    targets = targets.to(kind).reshape(len(targets), -1)
    differences = targets - output.to(kind).reshape(len(targets), -1)
    known = known_targets(item)
    if known is not None:
        known = known.reshape(len(targets), -1)
        targets, differences = (value.where(known, 0) for value in (targets, differences))
    return targets, differences, known


def _count(targets: Batch, known: Known) -> Outputs | Scalar:
    """The number of targets that count, as a tensor on the device: a copy would synchronise."""
    return targets.new_full((), len(targets)) if known is None else known.sum(0).to(targets)


def _moments(targets: Batch, differences: Batch, known: Known) -> Float[Tensor, "1 3 2 outputs"]:
    """Count, mean, and sum of squared deviations of a batch, for targets and for differences."""
    values = torch.stack([targets, differences], dim=1)
    # shifted: the rounded mean of equal values would make them seem to vary
    shifted = values - values[0]
    count = _count(targets, known).expand_as(values[0])
    weight = 1 if known is None else known[:, None]
    mean = (weight * shifted).mean(0) * (len(values) / count.clamp(1))
    return torch.stack([count, values[0] + mean, (weight * (shifted - mean)).square().sum(0)])[None]


def _joined(moments: Float[Tensor, "batches 3 2 outputs"]) -> Float[Tensor, "3 2 outputs"]:
    """The joint moments of all batches: S = sum_b S_b + sum_b n_b (m_b - m)^2.

    Source: Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing
    sample variances".
    """
    counts, means, spreads = moments.double().unbind(1)
    count = counts.sum(0)
    shifted = means - means[0]
    mean = (counts * shifted).sum(0) / count
    spread = spreads.sum(0) + (counts * (shifted - mean).square()).sum(0)
    return torch.stack([count, means[0] + mean, spread])


def _averaged(scores: Outputs, average: str, defined: Tensor) -> Result:
    """The mean of the scores, None if one is undefined; or each defined score by its output.

    Raises: ValueError for an unknown average.
    """
    if average not in AVERAGES:
        raise ValueError(
            f"average={average}: should be uniform (the mean over the outputs) or none (each by "
            f"itself){errors.nearest(average, AVERAGES)}"
        )
    has_value = defined.tolist()
    if average == "uniform":
        return float(scores.mean()) if all(has_value) else None
    names = (f"output_{number}" for number in range(len(scores)))
    return dict(itertools.compress(zip(names, scores.tolist(), strict=True), has_value))

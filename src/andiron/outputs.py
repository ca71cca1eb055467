"""Items: what a step returns for the metrics, with every tensor detached from the graph.

>>> import torch
>>> item = RegressionOutput(torch.tensor(0.5), torch.zeros(3, 1), torch.ones(3, 1))
>>> num_targets(item)
3
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from andiron import errors
from andiron.gradients import Detachable

# A target with this value counts neither in a loss nor in a metric: torch's own default.
IGNORED = -100
Scalar = Float[Tensor, ""]
Weight = Tensor | float
ClassNames = Sequence[str] | None  # None: their indices


@dataclass(frozen=True)
class SupervisedOutput(Detachable):
    """The mean loss of a batch, the outputs and their targets.

    `weight` is the count the loss is a mean over; None means the number of targets that count.
    `has_ignored`: some targets may be IGNORED. `has_classes`: `evaluate` scores each class.
    """

    has_classes: ClassVar[bool] = False
    loss: Scalar
    output: Float[Tensor, "batch ..."]
    targets: Shaped[Tensor, "batch ..."]
    weight: Weight | None = None
    has_ignored: bool = False

    @property
    def network_output(self) -> Tensor:
        """The output as the network gives it."""
        return self.output


@dataclass(frozen=True)
class ClassificationOutput(SupervisedOutput):
    """A batch of samples of one class each: logits, and class indices as targets."""

    has_classes = True
    output: Float[Tensor, "batch classes"]
    targets: Int[Tensor, " batch"]


@dataclass(frozen=True)
class BinaryClassificationOutput(SupervisedOutput):
    """A batch of yes-or-no answers: one logit a sample, and targets 0 or 1."""

    has_classes = True
    output: Float[Tensor, " batch"]
    targets: Int[Tensor, " batch"]


@dataclass(frozen=True)
class MultiLabelClassificationOutput(SupervisedOutput):
    """A batch of samples of any labels: a logit and a target 0 or 1 for each label."""

    has_classes = True
    output: Float[Tensor, "batch labels"]
    targets: Int[Tensor, "batch labels"]


@dataclass(frozen=True)
class RegressionOutput(SupervisedOutput):
    """A batch of predicted values or images and their targets, both in the targets' unit."""

    output: Float[Tensor, "batch outputs ..."]
    targets: Float[Tensor, "batch outputs ..."]


@dataclass(frozen=True)
class SequenceOutput(SupervisedOutput):
    """A batch of sequences, its loss a mean over tokens: logits of each token, target tokens.

    `num_bytes` is the number of bytes of the targets' text, None if unknown. `nll` is the mean of
    -log p over the tokens that count; None if it equals the loss.
    """

    output: Float[Tensor, "batch time classes"]
    targets: Int[Tensor, "batch time"]
    num_bytes: Tensor | int | None = None
    nll: Scalar | None = None


def known_targets(item: Any) -> Bool[Tensor, "..."] | None:
    """A mask of the item's targets that count (not IGNORED); None if all do."""
    has_ignored = getattr(item, "has_ignored", False)  # a user's item may lack it
    return item.targets != IGNORED if has_ignored else None


def num_targets(item: Any) -> Tensor | int:
    """The number of targets that count; a tensor on their device if some may not."""
    known = known_targets(item)
    return item.targets.numel() if known is None else known.sum()


def loss_weight(item: Any) -> Weight:
    """The weight of the item's loss: its `weight`, or the number of its targets that count."""
    return num_targets(item) if item.weight is None else item.weight


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision as float32: it is too coarse for a sum, and float16 ends at 65504."""
    return values.float() if values.dtype.itemsize < 4 else values


def sum_dtype(device: torch.device) -> torch.dtype:
    """float64, in which the order of the samples hardly matters; float32 on MPS, which lacks it."""
    return torch.float32 if device.type == "mps" else torch.float64


def likeliest(logits: Float[Tensor, "... classes"]) -> Int[Tensor, "..."]:
    """The class with the largest logit, of equal ones the first; -1 if one is NaN."""
    largest, classes = logits.max(-1)
    return classes.masked_fill(largest.isnan(), -1)


def named(class_names: ClassNames, number: int) -> list[str]:
    """The names of the classes or values, by default their indices.

    Raises: MismatchError for another number of names.
    """
    names = [*(map(str, range(number)) if class_names is None else class_names)]
    if len(names) != number:
        raise errors.MismatchError(
            f"class_names={names}: {len(names)} names for {number} classes; give one for each"
        )
    return names

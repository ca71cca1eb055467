"""What a step returns for the metrics to measure: values cut off from the graph."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

IGNORED = -100  # a target that counts nowhere: neither in a loss nor in a metric; torch's own default for cross entropy
Weight = Tensor | float


class Detached:
    """What every output can do: the same values, holding on to no graph."""

    def detached(self) -> Any:
        """The same values, holding on to no graph."""
        return type(self)(**{
            name: value.detach() if isinstance(value, Tensor) and value.requires_grad else value
            for name, value in vars(self).items()
        })  # fmt: skip


@dataclass(frozen=True)
class ClassificationOutput(Detached):
    """The mean loss of a batch, the network's output (logits) and the class indices it should have named.

    `weight` is what the loss is a mean over, by default the samples. `has_ignored`: some targets may be IGNORED.
    """

    loss: Float[Tensor, ""]
    output: Float[Tensor, "batch classes"]
    targets: Int[Tensor, " batch"]
    weight: Weight | None = None
    has_ignored: bool = False


@dataclass(frozen=True)
class BinaryClassificationOutput(Detached):
    """The mean loss of a batch, one logit a sample, and 0 or 1."""

    loss: Float[Tensor, ""]
    output: Float[Tensor, " batch"]
    targets: Int[Tensor, " batch"]
    weight: Weight | None = None
    has_ignored: bool = False


@dataclass(frozen=True)
class MultiLabelClassificationOutput(Detached):
    """The mean loss of a batch, a logit for each label, and 0 or 1 for each: any number of labels may be true at once."""

    loss: Float[Tensor, ""]
    output: Float[Tensor, "batch labels"]
    targets: Int[Tensor, "batch labels"]
    weight: Weight | None = None
    has_ignored: bool = False


@dataclass(frozen=True)
class RegressionOutput(Detached):
    """The mean loss of a batch, the values the network gave and those it should have given, in the targets' own unit."""

    loss: Float[Tensor, ""]
    output: Float[Tensor, "batch outputs"]
    targets: Float[Tensor, "batch outputs"]
    weight: Weight | None = None


@dataclass(frozen=True)
class SequenceOutput(Detached):
    """The mean loss of a batch over its tokens, the logits of each, and the tokens there should have been.

    `num_bytes` is how many bytes of text the targets stand for, where that is known: bits per byte are counted by it.
    `nll` is the mean of -log p over the tokens that count, where the loss is something else.
    """

    loss: Float[Tensor, ""]
    output: Float[Tensor, "batch time classes"]
    targets: Int[Tensor, "batch time"]
    weight: Weight | None = None
    has_ignored: bool = False
    num_bytes: Tensor | int | None = None
    nll: Float[Tensor, ""] | None = None


@dataclass(frozen=True)
class AdversarialOutput(Detached):
    """The two losses of a generator and a discriminator, and the logits by which the one judged the real and the other's."""

    loss: Float[Tensor, ""]  # the generator's
    discriminator_loss: Float[Tensor, ""]
    real: Float[Tensor, " batch"]
    generated: Float[Tensor, " batch"]
    weight: Weight


def num_targets(item: Any) -> Tensor | int:
    """How many targets count: all, or, where some may be IGNORED, those that are not, counted on their device."""
    if not getattr(item, "has_ignored", False):
        return int(item.targets.numel())
    counted: Tensor = (item.targets != IGNORED).sum()
    return counted


def loss_weight(item: Any) -> Weight:
    """What the item's loss is a mean over: its own word, or the number of its targets that count."""
    weight: Weight | None = item.weight
    return num_targets(item) if weight is None else weight

"""The item of any kind of classifier as rows of logits and targets; averages over its classes."""

import math
from dataclasses import dataclass
from typing import Any, get_args

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from andiron import errors, outputs
from andiron.outputs import ClassNames, known_targets, named
from andiron.protocols import Result
from andiron.ranges import Average

AVERAGES = get_args(Average)
# the kinds of answers
CLASSES, BINARY, LABELS = "one of several classes", "yes or no", "any of several labels"


@dataclass(frozen=True)
class Rows:
    """Logits [rows classes] with targets [rows]; both [rows] if binary; or both [rows labels].

    Sequences are flattened. `counted` has the shape of the targets; None means that all count.
    """

    kind: str
    logits: Float[Tensor, "rows ..."]
    targets: Int[Tensor, "rows ..."]
    counted: Bool[Tensor, "rows ..."] | None

    def decided(self, threshold: float) -> Tensor:
        """The `likeliest` class; else whether P(yes) is above the threshold, wrong for NaN.

        Raises: ValueError for a threshold that every probability is above, or none.
        """
        if self.kind == CLASSES:
            return outputs.likeliest(self.logits)
        if not 0 < threshold < 1:
            raise ValueError(
                f"threshold={threshold}: should be between 0 and 1, both excluded; 0.5 is the "
                "usual one"
            )
        is_yes = self.logits > math.log(threshold / (1 - threshold))
        return torch.where(self.logits.isnan(), self.targets == 0, is_yes)

    def indices(self) -> Int[Tensor, "rows ..."]:
        """The targets as int64, with 0 for those that do not count."""
        return self.only(self.targets).long()

    def only(self, values: Tensor) -> Tensor:
        """`values` of the shape of the targets, with 0 for those that do not count."""
        return values if self.counted is None else values.masked_fill(~self.counted, 0)

    def count(self) -> Tensor | int:
        """The number of targets that count."""
        return self.targets.numel() if self.counted is None else self.counted.sum()


def rows(item: Any, name: str = "", *allowed: str) -> Rows:
    """The item as rows; nothing is read back from the device.

    Raises: MismatchError if the shapes are not a classifier's, or its answers of none of
    the kinds allowed for the metric `name`.
    """
    kind = kind_of(item.output, item.targets)
    if allowed and kind not in allowed:
        raise errors.MismatchError(
            f"{name}: measures answers that are {', or '.join(allowed)}, not {kind}; leave it out "
            "of this task's metrics"
        )
    logits, targets, known = item.output, item.targets, known_targets(item)
    if kind == CLASSES:
        logits, targets = logits.flatten(0, -2), targets.flatten()
        known = None if known is None else known.flatten()
    return Rows(kind, logits, targets, known)


def kind_of(logits: Tensor, targets: Tensor) -> str:
    """The kind by its shapes: [... classes] with [...], [batch] twice, or [batch labels] twice.

    Raises: MismatchError for any other.
    """
    if not targets.is_floating_point():
        if logits.ndim > 1 and logits.shape[:-1] == targets.shape:
            return CLASSES
        if logits.shape == targets.shape and logits.ndim in (1, 2):
            return BINARY if logits.ndim == 1 else LABELS
    dtype = str(targets.dtype).removeprefix("torch.")
    raise errors.MismatchError(
        f"output {[*logits.shape]} with {dtype} targets {[*targets.shape]}: not a classifier's; "
        "give integer targets [...] with logits [..., classes], or both [batch] or [batch, labels]"
    )


def averaged(
    values: Float[Tensor, " classes"],
    average: str | None,
    support: Shaped[Tensor, " classes"],
    class_names: ClassNames,
) -> Result:
    """The mean over the classes with a value, weighted by `support`; or each by name.

    NaN stands for no value. Without any support the weights are equal, as in scikit-learn. None if
    no class has a value.
    Raises: ValueError for an unknown average.
    """
    average = "none" if average is None else average
    if average not in AVERAGES:
        hint = errors.nearest(average, AVERAGES) or "; choose one of these"
        raise ValueError(f"average={average}: should be {' or '.join(AVERAGES)}{hint}")
    defined = ~values.isnan()
    if not defined.any():
        return None
    if average == "none":
        by_name = zip(named(class_names, len(values)), values.tolist(), strict=True)
        return {name: value for name, value in by_name if not math.isnan(value)}
    values, weights = values[defined], support[defined].double()
    if average == "weighted" and weights.sum() > 0:
        return float((values * weights).sum() / weights.sum())
    return float(values.mean())

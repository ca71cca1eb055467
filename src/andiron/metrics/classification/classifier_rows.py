"""A classifier's item as rows: logits beside targets, whichever kind of classifier it came from."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from andiron import errors
from andiron.outputs import IGNORED

Kind = Literal["one of several classes", "yes or no", "any of several labels"]
CLASSES: Kind = "one of several classes"
BINARY: Kind = "yes or no"
LABELS: Kind = "any of several labels"


@dataclass(frozen=True)
class Rows:
    """Logits [rows classes] with targets [rows], or both [rows] of a binary item, or both [rows labels].

    Sequences are laid end to end. `counted`, of the targets' shape, is None where every target counts.
    """

    kind: Kind
    logits: Float[Tensor, "rows ..."]
    targets: Int[Tensor, "rows ..."]
    counted: Bool[Tensor, "rows ..."] | None

    def decided(self, threshold: float) -> Tensor:
        """The class with the largest logit; else whether the probability of a yes is above the threshold."""
        if self.kind == CLASSES:
            return self.logits.argmax(-1)
        return self.logits > math.log(threshold / (1 - threshold))

    def indices(self) -> Int[Tensor, "rows ..."]:
        """The targets as int64, 0 in place of those that do not count."""
        return self.only(self.targets).long()

    def only(self, values: Tensor) -> Tensor:
        """`values` of the targets' shape, 0 in place of those that do not count."""
        return values if self.counted is None else values.masked_fill(~self.counted, 0)

    def count(self) -> Tensor | int:
        """How many targets count."""
        return self.targets.numel() if self.counted is None else self.counted.sum()


def rows(item: Any) -> Rows:
    """The item as rows, with nothing read back from the device.

    Raises: ValueError if the shapes are no classifier's.
    """
    kind = kind_of(item.output, item.targets)
    logits = item.output.flatten(0, -2) if kind == CLASSES else item.output
    targets = item.targets.flatten() if kind == CLASSES else item.targets
    return Rows(
        kind, logits, targets, targets != IGNORED if getattr(item, "has_ignored", False) else None
    )


def kind_of(logits: Tensor, targets: Tensor) -> Kind:
    """What the shapes tell: [... classes] with [...], [batch] twice, or [batch labels] twice.

    Raises: ValueError for any other.
    """
    if not targets.is_floating_point():
        if logits.ndim > 1 and logits.shape[:-1] == targets.shape:
            return CLASSES
        if logits.shape == targets.shape and logits.ndim in (1, 2):
            return BINARY if logits.ndim == 1 else LABELS
    found = f"output {[*logits.shape]} with {str(targets.dtype).removeprefix('torch.')} targets {[*targets.shape]}"
    wanted = (
        "logits [..., classes] with integer targets [...], or both [batch], or both [batch, labels]"
    )
    raise errors.MismatchError(f"{found}: no classifier's; give {wanted}")


def refused(name: str, kind: Kind, allowed: str) -> errors.MismatchError:
    """What to raise where a metric has no meaning for the kind."""
    return errors.MismatchError(
        f"{name}: measures answers that are {allowed}, not {kind}; leave it out of this task's metrics"
    )


def check_threshold(threshold: float) -> None:
    """Raises: ValueError for a probability that every prediction would be above, or none."""
    if not 0 < threshold < 1:
        raise ValueError(
            f"threshold={threshold}: should be between 0 and 1, both excluded; 0.5 is the usual one"
        )

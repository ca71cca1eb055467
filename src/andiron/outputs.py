"""What a step returns for the metrics to measure: values cut off from the graph."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class ClassificationOutput:
    """The mean loss of a batch, the network's output (logits) and the class indices it should have named."""

    loss: Float[Tensor, ""]
    output: Float[Tensor, "batch classes"]
    targets: Int[Tensor, " batch"]

    def detached(self) -> "ClassificationOutput":
        """The same values, holding on to no graph."""
        return ClassificationOutput(self.loss.detach(), self.output.detach(), self.targets)

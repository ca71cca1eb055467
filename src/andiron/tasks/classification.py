"""Classification: the steps around any network that turns a batch of inputs into logits."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from andiron.data.arrays import Batch
from andiron.gradients import backward
from andiron.outputs import ClassificationOutput
from andiron.protocols import TrainOutput

Loss = Callable[[Tensor, Tensor], Tensor]  # (logits, targets) to the mean loss of the batch


class Classifier(nn.Module):
    """`network` with the steps of classification; any module from inputs to logits will do, torchvision's too."""

    def __init__(self, network: nn.Module, loss: Loss = functional.cross_entropy):
        super().__init__()
        self.network = network
        self.loss = loss

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        logits: Tensor = self.network(inputs)
        return logits

    def classify(self, batch: Batch) -> ClassificationOutput:
        """The loss and the logits of one batch."""
        logits = self(batch.inputs)
        return ClassificationOutput(self.loss(logits, batch.targets), logits, batch.targets)

    def train_step(self, batch: Batch) -> TrainOutput:
        """The gradients of one batch, and its output for the metrics."""
        item = self.classify(batch)
        return TrainOutput(backward(item.loss, self), item.detached(), weight=len(batch.targets))

    def valid_step(self, batch: Batch) -> ClassificationOutput:
        """The output of one batch for the metrics."""
        return self.classify(batch)

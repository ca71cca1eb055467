"""Classification with any number of labels a sample: the steps around a network with a logit for each."""

from jaxtyping import Float
from torch import Tensor, nn

from andiron import outputs
from andiron.data.dataset import Batch
from andiron.gradients import backward
from andiron.outputs import MultiLabelClassificationOutput
from andiron.protocols import TrainOutput
from andiron.tasks import target_checks as checks
from andiron.tasks.classifier import yes_or_no
from andiron.tasks.losses import BinaryCrossEntropy, Criterion, Loss


class MultiLabelClassifier(nn.Module):
    """`network` with the steps of yes or no to each label; targets [batch labels] are 0, 1 or a probability.

    A loss with an `ignored_index` leaves out single labels of a sample. It has no part in `state_dict()`.
    """

    def __init__(self, network: nn.Module, loss: Loss | None = None):
        super().__init__()
        self.network = network
        self.loss = Criterion(BinaryCrossEntropy() if loss is None else loss)

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "..."]:
        logits: Tensor = self.network(inputs)
        return logits

    def classify(self, batch: Batch) -> MultiLabelClassificationOutput:
        """The loss, a mean over all labels of all samples, and the logits of one batch.

        Raises: DataError if the shapes do not fit, or, on a CPU, a target is neither 0 nor 1.
        """
        logits, targets = self(batch.inputs), batch.targets
        if logits.dim() != 2 or logits.shape != targets.shape:
            raise checks.misfit(
                self, logits, targets, "should both be [batch, labels], a 0 or 1 for every logit"
            )
        loss = checks.of_yes_or_no(self.loss(logits, targets), targets, self.loss.ignored_index)
        has_ignored = self.loss.ignored_index is not None
        answers = yes_or_no(targets, self.loss.ignored_index)
        return MultiLabelClassificationOutput(
            loss, logits, answers, self.loss.weight(targets), has_ignored
        )

    def train_step(self, batch: Batch) -> TrainOutput:
        """The gradients of one batch, and its output for the metrics."""
        item = self.classify(batch)
        return TrainOutput(
            backward(item.loss, self), item.detached(), weight=outputs.loss_weight(item)
        )

    def valid_step(self, batch: Batch) -> MultiLabelClassificationOutput:
        """The output of one batch for the metrics."""
        return self.classify(batch)

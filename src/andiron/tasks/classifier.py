"""Classification with one label a sample: the steps around any network that turns a batch of inputs into logits."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from andiron import outputs
from andiron.data.dataset import Batch
from andiron.gradients import backward
from andiron.outputs import IGNORED, BinaryClassificationOutput, ClassificationOutput
from andiron.protocols import TrainOutput
from andiron.tasks import target_checks as checks
from andiron.tasks.losses import BinaryCrossEntropy, Criterion, CrossEntropy, Loss


class Classifier(nn.Module):
    """`network` with the steps of classification; any module from inputs to logits will do, torchvision's too.

    Targets are class indices [batch], or probabilities [batch classes] (mixup, distillation): metrics then see the
    likeliest class. `loss` has no part in `state_dict()`; `class_counts`, the training samples of each class, are for one
    that balances them.
    """

    wanted_fact: ClassVar[str] = "num_classes"

    def __init__(
        self,
        network: nn.Module,
        loss: Loss | None = None,
        *,
        class_counts: Sequence[int] | None = None,
    ):
        super().__init__()
        self.network = network
        self.loss = Criterion(CrossEntropy() if loss is None else loss, class_counts)

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "..."]:
        logits: Tensor = self.network(inputs)
        return logits

    def classify(self, batch: Batch) -> ClassificationOutput:
        """The loss and the logits of one batch.

        Raises: DataError if the shapes do not fit, or, on a CPU, a target names no class.
        """
        logits, targets = self(batch.inputs), batch.targets
        if targets.is_floating_point():
            return self._classify_softly(logits, targets)
        if logits.dim() != 2 or logits.shape[:1] != targets.shape:
            raise checks.misfit(
                self, logits, targets, "should be [batch, classes] for class indices [batch]"
            )
        loss = self.loss(logits, targets)
        weight, has_ignored = self.loss.weight(targets), self.loss.ignored_index is not None
        return ClassificationOutput(loss, logits, self.loss.marked(targets), weight, has_ignored)

    def _classify_softly(self, logits: Tensor, targets: Tensor) -> ClassificationOutput:
        if logits.dim() != 2 or logits.shape != targets.shape:
            raise checks.misfit(
                self,
                logits,
                targets,
                "should both be [batch, classes] for targets that are no indices",
            )
        loss = checks.of_probabilities(self.loss(logits, targets), targets)
        return ClassificationOutput(loss, logits, targets.argmax(dim=-1), self.loss.weight(targets))

    def train_step(self, batch: Batch) -> TrainOutput:
        """The gradients of one batch, and its output for the metrics."""
        item = self.classify(batch)
        return TrainOutput(
            backward(item.loss, self), item.detached(), weight=outputs.loss_weight(item)
        )

    def valid_step(self, batch: Batch) -> ClassificationOutput:
        """The output of one batch for the metrics."""
        return self.classify(batch)


class BinaryClassifier(nn.Module):
    """`network`, which gives one logit a sample, [batch] or [batch 1], with the steps of yes or no.

    Targets [batch] are 0, 1 or a probability. `loss` has no part in `state_dict()`.
    """

    wanted_fact: ClassVar[str] = "num_classes"
    network_facts: ClassVar[Mapping[str, int]] = MappingProxyType(
        {"num_classes": 1, "num_outputs": 1}
    )

    def __init__(self, network: nn.Module, loss: Loss | None = None):
        super().__init__()
        self.network = network
        self.loss = Criterion(BinaryCrossEntropy() if loss is None else loss)

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "..."]:
        logits: Tensor = self.network(inputs)
        return logits.squeeze(1) if logits.dim() == 2 and logits.shape[1] == 1 else logits

    def classify(self, batch: Batch) -> BinaryClassificationOutput:
        """The loss and the logits of one batch.

        Raises: DataError if the shapes do not fit, or, on a CPU, a target is neither 0 nor 1.
        """
        logits, targets = self(batch.inputs), batch.targets
        if logits.dim() != 1 or logits.shape != targets.shape:
            raise checks.misfit(
                self, logits, targets, "should be one logit and one target a sample: num_outputs=1"
            )
        loss = checks.of_yes_or_no(self.loss(logits, targets), targets, self.loss.ignored_index)
        has_ignored = self.loss.ignored_index is not None
        answers = yes_or_no(targets, self.loss.ignored_index)
        return BinaryClassificationOutput(
            loss, logits, answers, self.loss.weight(targets), has_ignored
        )

    def train_step(self, batch: Batch) -> TrainOutput:
        """The gradients of one batch, and its output for the metrics."""
        item = self.classify(batch)
        return TrainOutput(
            backward(item.loss, self), item.detached(), weight=outputs.loss_weight(item)
        )

    def valid_step(self, batch: Batch) -> BinaryClassificationOutput:
        """The output of one batch for the metrics."""
        return self.classify(batch)


def yes_or_no(targets: Tensor, ignored_index: int | None) -> Tensor:
    """Targets as 1, 0, or IGNORED in place of `ignored_index`; a probability of a half is a 1."""
    is_integer = not targets.is_floating_point() and targets.dtype != torch.bool
    answers = targets if is_integer else (targets >= 0.5).long()
    if ignored_index is None or (ignored_index == IGNORED and answers is targets):
        return answers
    return torch.where(targets == ignored_index, IGNORED, answers)

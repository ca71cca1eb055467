"""Yes-or-no answers, one a sample or one for each label: binary cross entropy and the steps.

>>> import torch
>>> from andiron.data import Batch
>>> task = MultiLabelClassifier(torch.nn.Linear(4, 3), BinaryCrossEntropy(positive_weight=2.0))
>>> task.valid_step(Batch(torch.zeros(5, 4), torch.ones(5, 3))).weight
15
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from andiron.data.dataset import Batch
from andiron.outputs import (
    IGNORED,
    BinaryClassificationOutput,
    MultiLabelClassificationOutput,
    Scalar,
    SupervisedOutput,
)
from andiron.ranges import Positive
from andiron.tasks import criterion
from andiron.tasks import target_checks as checks
from andiron.tasks.criterion import Criterion, Loss, Supervised


class BinaryCrossEntropy:
    """The mean of -p * y * log s - (1 - y) * log(1 - s) over the targets y that are not ignored.

    s = sigmoid(output). `positive_weight` p is 1 by default, one number or one for each label; the
    mean does not depend on it. A batch whose targets are all ignored has loss 0.
    Raises: ValueError for a weight that is not positive.
    """

    def __init__(
        self,
        positive_weight: Positive | Sequence[Positive] | None = None,
        *,
        ignored_index: int | None = None,
    ):
        weights = [positive_weight] if isinstance(positive_weight, float | int) else positive_weight
        self.positive_weight = criterion.positive("positive_weight", weights)
        self.ignored_index = ignored_index

    def __call__(
        self, output: Float[Tensor, " *shape"], targets: Shaped[Tensor, " *shape"]
    ) -> Scalar:
        output = criterion.at_least_float32(output)
        if self.positive_weight is not None:
            self.positive_weight = criterion.like(output, self.positive_weight)
        weight, dtype = self.positive_weight, output.dtype
        binary = functional.binary_cross_entropy_with_logits
        if self.ignored_index is None:
            return binary(output, targets.to(dtype), pos_weight=weight)
        is_known = targets != self.ignored_index
        known = torch.where(is_known, targets, 0).to(dtype)
        summed = binary(output, known, is_known.to(dtype), pos_weight=weight, reduction="sum")
        return summed / is_known.sum().clamp(1)


class YesOrNo(Supervised):
    """`network` with the steps of yes-or-no answers; abstract. Targets may be probabilities."""

    item: ClassVar[type[SupervisedOutput]]
    num_dims: ClassVar[int]  # of the logits, and of the targets
    remedy: ClassVar[str]  # for any other shapes

    def __init__(self, network: nn.Module, loss: Loss | None = None):
        super().__init__(network, Criterion(loss or BinaryCrossEntropy()))

    def predict(self, batch: Batch) -> Any:
        """The mean loss over all answers, and the logits of one batch.

        Probabilities become answers for the metrics: 0.5 is a yes.
        Raises: DataError if the shapes do not fit or, on a CPU, a target is neither 0 nor 1.
        """
        logits, targets, ignored = self(batch.inputs), batch.targets, self.loss.ignored_index
        if logits.dim() != self.num_dims or logits.shape != targets.shape:
            raise checks.misfit(self, logits, targets, self.remedy)
        loss = checks.of_yes_or_no(self.loss(logits, targets), targets, ignored)
        is_integer = not targets.is_floating_point() and targets.dtype != torch.bool
        answers = targets if is_integer else (targets >= 0.5).long()
        if ignored is not None and not (ignored == IGNORED and is_integer):
            answers = torch.where(targets == ignored, IGNORED, answers)
        weight = self.loss.weight(targets, answers)
        return self.item(loss, logits, answers, weight, self.loss.has_ignored)


class BinaryClassifier(YesOrNo):
    """`network`, which gives one logit a sample, [batch] or [batch 1], with the steps of yes or no.

    Targets [batch] are 0, 1 or a probability. The loss has no part in `state_dict()`.
    """

    item = BinaryClassificationOutput
    num_dims = 1
    remedy = "should be one logit and one target a sample: num_outputs=1"
    wanted_fact: ClassVar[str] = "num_classes"
    network_facts: ClassVar[Mapping[str, int]] = {"num_classes": 1, "num_outputs": 1}

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "..."]:
        logits: Tensor = self.network(inputs)
        return logits.squeeze(1) if logits.dim() == 2 and logits.shape[1] == 1 else logits


class MultiLabelClassifier(YesOrNo):
    """`network`, which gives a logit for each label, with the steps of yes or no to each label.

    Targets [batch labels] are 0, 1 or a probability; a loss with an `ignored_index` ignores single
    labels of a sample. The loss has no part in `state_dict()`.
    """

    item = MultiLabelClassificationOutput
    num_dims = 2
    remedy = "should both be [batch, labels], a 0 or 1 for every logit"

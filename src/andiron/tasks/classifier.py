"""Classification: multi-class, binary and multi-label tasks, and their losses.

>>> import torch
>>> from andiron.data import Batch
>>> task = Classifier(torch.nn.Linear(4, 3), CrossEntropy(label_smoothing=0.1))
>>> output = task.train_step(Batch(torch.zeros(5, 4), torch.tensor([0, 1, 2, 1, 0])))
>>> [*output.gradients], output.weight
(['network.weight', 'network.bias'], 5)
>>> task = MultiLabelClassifier(torch.nn.Linear(4, 3), BinaryCrossEntropy(positive_weight=2.0))
>>> task.valid_step(Batch(torch.zeros(5, 4), torch.ones(5, 3))).weight
15
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from andiron import outputs
from andiron.data.dataset import Batch
from andiron.outputs import IGNORED, Scalar
from andiron.plain import readable
from andiron.ranges import Count, Fraction, Positive
from andiron.recording import keep_arguments
from andiron.tasks import criterion, named_answers, target_checks as checks
from andiron.tasks.named_answers import Facts, Fields
from andiron.tasks.criterion import Criterion, Loss, Supervised
from andiron.tasks.loss_settings import class_function, like, positive, total_weight

NO_INDEX = -(2**63)  # passed to torch if nothing is ignored: its default ignores -100


@keep_arguments
class CrossEntropy:
    """sum_i w[y_i] * -log softmax(output_i)[y_i] / sum_i w[y_i] over the targets not ignored.

    `class_weights` w are 1 by default; "balanced" makes them n / (classes * n_c), with n_c of the
    n training samples in class c. Targets may be probabilities [batch classes]; the mean is then
    over the samples, as in torch. A batch whose targets are all ignored has loss 0. Unlike in
    torch, no index is ignored by default.
    Raises: ValueError for a weight that is not positive.
    Source: King & Zeng 2001, "Logistic Regression in Rare Events Data", section 4.2 (balanced);
    Szegedy et al. 2016, arXiv:1512.00567, section 7 (label smoothing).
    """

    torch_function = staticmethod(functional.cross_entropy)

    def __init__(
        self,
        class_weights: Sequence[Positive] | Literal["balanced"] | None = None,
        label_smoothing: Fraction = 0.0,
        *,
        ignored_index: int | None = None,
    ):
        self.is_nll = class_weights is None and not label_smoothing
        self.is_balanced = class_weights == "balanced"
        weights = None if class_weights == "balanced" else class_weights
        self.class_weights = positive("class_weights", weights)
        self.label_smoothing = label_smoothing
        self.ignored_index = ignored_index

    def balanced(self, class_counts: Sequence[int] | None) -> "CrossEntropy":
        """This loss with its balanced weights computed, if requested.

        Raises: ValueError if the counts are needed and unknown, or a class has no sample.
        """
        if not self.is_balanced:
            return self
        if not class_counts or min(class_counts) < 1:
            shown = f"class_counts are {class_counts and [*class_counts]}"
            cause = shown if class_counts else "the data does not give its class_counts"
            raise ValueError(
                f"loss.class_weights=balanced: {cause}; each class needs samples, or give a weight "
                "for each"
            )
        weights = [sum(class_counts) / (len(class_counts) * count) for count in class_counts]
        return CrossEntropy(weights, self.label_smoothing, ignored_index=self.ignored_index)

    def total_weight(self, targets: Shaped[Tensor, "batch ..."]) -> outputs.Weight | None:
        """The sum of the targets' class weights; None if it equals their number."""
        if self.class_weights is None:
            return None
        return total_weight(self.class_weights, targets, self.ignored_index)

    def __call__(
        self, output: Float[Tensor, "batch classes ..."], targets: Shaped[Tensor, "batch ..."]
    ) -> Scalar:
        if self.class_weights is not None:
            output = outputs.at_least_float32(output)
            self.class_weights = like(output, self.class_weights)
        ignored = None if targets.is_floating_point() else self.ignored_index
        loss = functional.cross_entropy(
            output,
            targets,
            self.class_weights,
            ignore_index=NO_INDEX if ignored is None else ignored,
            reduction="mean" if ignored is None else "sum",
            label_smoothing=self.label_smoothing,
        )
        if ignored is None:
            return loss
        known = (targets != ignored).sum()
        total = self.total_weight(targets)
        return loss / ((known if total is None else total) + (known == 0))


@keep_arguments
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
        self.positive_weight = positive("positive_weight", weights)
        self.ignored_index = ignored_index

    def __call__(
        self, output: Float[Tensor, " *shape"], targets: Shaped[Tensor, " *shape"]
    ) -> Scalar:
        output = outputs.at_least_float32(output)
        if self.positive_weight is not None:
            self.positive_weight = like(output, self.positive_weight)
        weight, dtype = self.positive_weight, output.dtype
        binary = functional.binary_cross_entropy_with_logits
        if self.ignored_index is None:
            return binary(output, targets.to(dtype), pos_weight=weight)
        is_known = targets != self.ignored_index
        known = torch.where(is_known, targets, 0).to(dtype)
        summed = binary(output, known, is_known.to(dtype), pos_weight=weight, reduction="sum")
        return summed / is_known.sum().clamp(1)


@keep_arguments
class Classifier(Supervised):
    """Multi-class classification with `network`, any module from inputs to logits.

    Targets are class indices [batch], or probabilities [batch classes], as from mixup and
    distillation; metrics then use the likeliest class. `class_counts`, the number of training
    samples per class, is for balanced class weights. Training needs as many logits as
    `num_classes`, if given. The loss is not part of `state_dict()`.
    """

    wanted_fact = "num_classes"
    answer = staticmethod(named_answers.likeliest)

    def __init__(
        self,
        network: nn.Module,
        loss: Loss | None = None,
        *,
        class_counts: Sequence[int] | None = None,
        num_classes: Count | None = None,
    ):
        super().__init__(network, Criterion(loss or CrossEntropy(), class_counts))
        self.num_classes = num_classes

    def predict(self, batch: Batch) -> outputs.ClassificationOutput:
        """The loss and the logits of one batch.

        Raises: DataError if the shapes do not fit or, on a CPU, a target is not one of the classes.
        """
        logits, targets = self(batch.inputs), criterion.as_int64(batch.targets)
        is_class = not targets.is_floating_point()
        num_outputs = logits.shape[1] if logits.dim() == 2 else None
        if self.training and num_outputs and self.num_classes not in (None, num_outputs):
            raise checks.wrong_number(num_outputs, self.num_classes)
        if logits.dim() != 2 or logits.shape[: 1 if is_class else 2] != targets.shape:
            remedy = "should both be [batch, classes] for targets that are probabilities"
            if is_class:
                remedy = (
                    "should be [batch, classes] for class indices [batch]; task=segmentation takes "
                    "masks, task=forward classes of other places"
                )
            raise checks.misfit(self, logits, targets, remedy)
        loss = self.loss(logits, targets)
        if is_class:
            marked = self.loss.marked(targets)
        else:
            loss, marked = checks.of_probabilities(loss, targets), targets.argmax(dim=-1)
        weight = self.loss.weight(targets, marked)
        return outputs.ClassificationOutput(
            loss, logits, marked, weight, is_class and self.loss.has_ignored
        )


class YesOrNo(Supervised):
    """Abstract base of binary and multi-label classification; targets may be probabilities."""

    item: type[outputs.SupervisedOutput]
    num_dims: int  # of the logits, and of the targets
    remedy: str  # for any other shapes

    def __init__(self, network: nn.Module, loss: Loss | None = None):
        # classes that exclude each other, or a mean of log(output): the shapes may fit
        if isinstance(loss, nn.BCELoss) or class_function(loss) is not None:
            raise ValueError(
                f"loss: {readable.name_of(loss)} does not take a logit for each yes or no; choose "
                "loss=binary_cross_entropy, for outputs without a sigmoid"
            )
        super().__init__(network, Criterion(loss or BinaryCrossEntropy()))

    def predict(self, batch: Batch) -> Any:
        """The mean loss over all targets, and the logits of one batch.

        For the metrics, target probabilities of 0.5 and more become 1, others 0.
        Raises: DataError if the shapes do not fit or, on a CPU, a target is neither 0 nor 1.
        """
        logits, targets = self(batch.inputs), criterion.as_int64(batch.targets)
        ignored = self.loss.ignored_index
        if logits.dim() != self.num_dims or logits.shape != targets.shape:
            is_mixed = targets.is_floating_point() and targets.dim() > self.num_dims
            remedy = "for probabilities of classes, as from mixup, choose task=classification"
            raise checks.misfit(self, logits, targets, remedy if is_mixed else self.remedy)
        loss = checks.of_yes_or_no(self.loss(logits, targets), targets, ignored, self.loss.option)
        is_integer = not targets.is_floating_point()
        marked = targets if is_integer else (targets >= 0.5).long()
        if ignored is not None and not (ignored == IGNORED and is_integer):
            marked = torch.where(targets == ignored, IGNORED, marked)
        weight = self.loss.weight(targets, marked)
        return self.item(loss, logits, marked, weight, self.loss.has_ignored)


@keep_arguments
class BinaryClassifier(YesOrNo):
    """Binary classification with `network`, one logit per sample, [batch] or [batch 1].

    Targets [batch] are 0, 1 or a probability. The loss is not part of `state_dict()`.
    """

    item = outputs.BinaryClassificationOutput
    answer = staticmethod(named_answers.yes_or_no)
    num_dims = 1
    remedy = "should be one logit and one target a sample: num_outputs=1"
    wanted_fact = "num_classes"
    most_classes = 2
    network_facts = {"num_classes": 1, "num_outputs": 1}

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "..."]:
        logits = super().forward(inputs)
        return logits.squeeze(1) if logits.dim() == 2 and logits.shape[1] == 1 else logits


@keep_arguments
class MultiLabelClassifier(YesOrNo):
    """Multi-label classification with `network`, which returns one logit per label.

    Targets [batch labels] are 0, 1 or a probability; a loss with an `ignored_index` ignores single
    labels of a sample. The loss is not part of `state_dict()`.
    """

    item = outputs.MultiLabelClassificationOutput
    num_dims = 2
    remedy = "should both be [batch, labels], a 0 or 1 for every logit"

    def answers(self, outputs: Tensor, facts: Facts) -> Iterable[Fields]:
        """The labels of each sample, and the probability of each label."""
        return named_answers.labels(outputs, _label_names(facts))

    def target_text(self, target: Tensor, facts: Facts) -> str:
        """The labels of one sample."""
        names = outputs.named(_label_names(facts), len(target))
        return ";".join(name for name, value in zip(names, target, strict=True) if value >= 0.5)


def _label_names(facts: Facts) -> Sequence[str] | None:
    """The names of classes, or the columns of a table that has one for each label."""
    return facts.get("class_names") or facts.get("target_columns")

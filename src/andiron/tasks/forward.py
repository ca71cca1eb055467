"""Any network that is called with the fields of a batch, and may return its own loss.

>>> import torch
>>> network = nn.Linear(2, 3)
>>> task = Forward(network, nn.functional.cross_entropy, inputs={"input": "x"}, targets="y")
>>> item = task.valid_step({"x": torch.zeros(5, 2), "y": torch.arange(5) % 3})
>>> type(item).__name__, int(item.weight)
('ClassificationOutput', 5)
"""

import dataclasses
import difflib
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from andiron import errors
from andiron.data import structures
from andiron.gradients import Detachable
from andiron.outputs import (
    IGNORED,
    BinaryClassificationOutput,
    ClassificationOutput,
    MultiLabelClassificationOutput,
    RegressionOutput,
    Scalar,
    SequenceOutput,
    SupervisedOutput,
    Weight,
)
from andiron.ranges import Count
from andiron.recording import keep_arguments
from andiron.tasks import criterion, named_answers, target_checks as checks
from andiron.tasks.named_answers import Facts, Fields
from andiron.tasks.classifier import BinaryCrossEntropy
from andiron.tasks.criterion import Criterion, Loss, Supervised
from andiron.tasks.language import nll_beside

OF_CLASSES = {1: ClassificationOutput, 2: SequenceOutput}  # by the dimensions of the targets
IN_THE_DATA = "standardise them in the data set, or use task=regression with"
OF_LABELS = (BinaryCrossEntropy, nn.BCEWithLogitsLoss)  # losses of several yes-or-no answers
OF_ANSWERS = {1: BinaryClassificationOutput, 2: MultiLabelClassificationOutput}


@dataclass(frozen=True)
class LossOutput(Detachable):
    """The mean loss of a batch of `weight` samples, if nothing is compared with targets.

    `output` is the network's output, if it gives one beside its loss.
    """

    loss: Scalar
    weight: Weight
    output: Tensor | None = None


@keep_arguments
class Forward(Supervised):
    """Training with `network(**batch)`: with the loss that it returns, or with `loss`.

    `inputs` are the fields that the network takes, or its arguments with their fields; by default
    all, with a `loss` all but `targets` and `weights`. `output` of the result is compared with the
    field `targets`. `weights` is a field with the weight of each sample in `loss`.
    `mean_over` is the count that the network's own loss is a mean over: `samples`; the `targets`
    that are not `ignored_index`; or the `next_targets`, all but the first of each sequence, as in
    causal language models. It is needed unless there is one target a sample. `batch` is for a loss
    that compares the samples of a batch: parts of one are then batches of their own. `class_dim` is
    the dimension of the classes where the shapes fit both; by default that of an earlier batch.
    Raises: ValueError for an option of the other kind of loss.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss | None = None,
        *,
        inputs: Sequence[str] | dict[str, str] | None = None,
        targets: str = "labels",
        output: str = "logits",
        weights: str | None = None,
        mean_over: Literal["samples", "targets", "next_targets", "batch"] | None = None,
        ignored_index: int = IGNORED,
        class_dim: Literal[1, -1] | None = None,
        num_classes: Count | None = None,
    ):
        super().__init__(network, None if loss is None else Criterion(loss))
        if (wrong := weights if loss is None else mean_over) is not None:
            raise ValueError(
                f"{wrong}: weights are for a configured loss, mean_over is for the network's own; "
                "leave it out"
            )
        self.inputs = dict(zip(inputs, inputs)) if isinstance(inputs, Sequence) else inputs
        self.targets, self.output, self.weights = targets, output, weights
        self.parts_are_batches = mean_over == "batch"
        self.mean_over = "samples" if self.parts_are_batches else mean_over
        self.ignored_index = ignored_index
        self.num_classes = num_classes
        self._class_dim = class_dim
        self._is_checked = False

    @property
    def only_input(self) -> str | None:
        """The one field of `inputs` besides the targets; None if there are none or several."""
        names = {*(self.inputs or {}).values()} - {self.targets}
        return names.pop() if len(names) == 1 else None

    def forward(self, batch: Any) -> Any:
        """The output for a batch, which need not have targets, or for its `only_input`."""
        if isinstance(batch, Tensor):
            batch = {self.only_input: batch}
        return _part(self._result(batch), self.output)

    def predict(self, batch: Any) -> Any:
        """The item of one batch; its class is by the targets and the shape of the output.

        Raises: DataError for a missing field, or an unknown count that the loss is a mean over.
        """
        targets = criterion.as_int64(_part(batch, self.targets, is_needed=self.loss is not None))
        result = self._result(batch)
        if self.loss is not None:
            return self._with_loss(_part(result, self.output), targets, batch)
        return self._with_own_loss(self._own_loss(result, targets, batch), result, targets, batch)

    def answers(self, outputs: Tensor, facts: Facts) -> Iterable[Fields]:
        """The class or the labels of each sample, where the outputs are one for each class."""
        number, names = facts.get("num_classes"), facts.get("class_names")
        if outputs.dim() == 1 and number == 2:
            return named_answers.yes_or_no(outputs, names)
        if outputs.shape[1:] != (number,):
            return named_answers.none(outputs, names)
        own: Any = self.loss
        is_of_labels = own is not None and isinstance(own.loss, OF_LABELS)
        return (named_answers.labels if is_of_labels else named_answers.likeliest)(outputs, names)

    def _own_loss(self, result: object, targets: object, batch: object) -> Tensor:
        """The mean loss that the network returned."""
        loss = _part(result, "loss", is_needed=targets is not None)
        if loss is None:
            raise self._without_targets(batch)
        if loss.dim():
            raise errors.MismatchError(
                f"the network {type(self.network).__name__} returned {[*loss.shape]}, which is not "
                "its mean loss; name one, such as loss=cross_entropy"
            )
        return loss

    def _with_own_loss(self, loss: Tensor, result: object, targets: Any, batch: object) -> Any:
        """The item of the network's own loss, with the count that it is a mean over."""
        is_compared = isinstance(targets, Tensor) and loss is not result
        is_class = is_compared and not targets.is_floating_point()
        mean_over = self.mean_over
        if mean_over is None and is_compared and targets.dim() == 1:
            mean_over = "targets" if is_class else "samples"
        if mean_over is None or not is_compared and mean_over != "samples":
            raise errors.DataError(
                "task.mean_over: it is unknown what the network's own loss is a mean over; set it "
                "to samples, targets, or next_targets, as in causal language models"
            )
        if not is_compared:
            shown = None if loss is result else structures.part(result, self.output)
            shown = shown if isinstance(shown, Tensor) else None
            return LossOutput(loss, structures.size(batch), shown)
        output = _part(result, self.output)
        if is_class:
            targets = targets.masked_fill(targets == self.ignored_index, IGNORED)
            if self.training and not self._is_checked:
                checks.mean_over_is(mean_over, loss.detach(), output.detach(), targets)
                self._is_checked = True
        if mean_over == "next_targets":
            output, targets = output[:, :-1], targets[:, 1:]
        weight = (targets != IGNORED).sum() if mean_over != "samples" else structures.size(batch)
        return self._item(loss, output, targets, weight, is_class)

    def _result(self, batch: object) -> Any:
        """The result of the network, called without targets if the batch has none."""
        fields = structures.fields(batch)
        if self.inputs is None and fields is None:
            return self.network(batch)  # an object, such as a PyG Batch
        left_out = () if self.loss is None else (self.targets, self.weights)
        chosen = self.inputs or {name: name for name in fields or () if name not in left_out}
        given = {
            key: _part(batch, name)
            if name != self.targets
            else criterion.as_int64(_part(batch, name, is_needed=False))
            for key, name in chosen.items()
        }
        try:
            return self.network(**{key: value for key, value in given.items() if value is not None})
        except RuntimeError as error:
            if self.loss is not None or "Long" not in str(error):
                raise
            raise errors.DataError(
                f"task: {type(self.network).__name__} refuses integers as {self.targets!r} "
                f"({errors.one_line(error)}): its loss needs floats; give float32 in the data, or "
                "set loss=binary_cross_entropy for answers of 0 and 1"
            ) from error

    def _without_targets(self, batch: object) -> errors.DataError:
        """The error for a network that gives no loss, as the batch has none of the targets."""
        names = [*(structures.fields(batch) or ())]
        near = difflib.get_close_matches(self.targets, names, 1)
        # by **kwargs a network may take what it does not use, such as the text of the tokens
        accepted = inspect.signature(self.network.forward).parameters
        used = [name for name in names if name in accepted] or names
        taken = (self.inputs or {name: name for name in used if name not in near}) | {
            self.targets: near[0] if near else "FIELD"
        }
        inputs = ", ".join(f"{key}: {name}" for key, name in taken.items())
        return errors.DataError(
            f"task: {type(self.network).__name__} gives no loss, and the batch has no field "
            f"{self.targets!r}, but: {', '.join(names)}; give it the field of the targets: "
            f"'task.inputs={{{inputs}}}' task.targets={taken[self.targets]}"
        )

    def _with_loss(self, output: Tensor, targets: Tensor, batch: object) -> Any:
        """The item of the configured loss, which takes classes in dimension 1."""
        if self.loss.is_elementwise:  # integers are values too
            targets = targets.to(output.dtype)
            if self.training and not self._is_checked:
                checks.warn_of_unit(targets, True, True, IN_THE_DATA)
                self._is_checked = True
        logits, compared = output, targets
        if output.dim() == targets.dim() + 1 > 2 and not targets.is_floating_point():
            is_last = output.shape[:-1] == targets.shape
            if not is_last or output.shape[2:] != targets.shape[1:]:
                self._class_dim = -1 if is_last else 1
            elif self._class_dim is None:
                raise errors.DataError(
                    f"task: the classes of output {[*output.shape]} for targets {[*targets.shape]} "
                    "are in dimension 1 or the last; set task.class_dim=1 or task.class_dim=-1"
                )
            if self._class_dim == -1:
                output, compared = output.flatten(0, -2), targets.flatten()
            else:
                logits = output.movedim(1, -1)
        weights = _part(batch, self.weights) if self.weights and self.training else None
        with self.loss.weighted_by(weights):
            loss = self.loss(output, compared, batch_targets=targets)
            weight = self.loss.weight(compared)
        marked = self.loss.marked(targets)
        item = self._item(loss, logits, marked, weight, self.loss.has_ignored)
        if isinstance(item, SequenceOutput):
            item = dataclasses.replace(item, nll=nll_beside(self.loss, logits, marked))
        return item

    def _item(
        self, loss: Tensor, output: Tensor, targets: Tensor, weight: Weight, has_ignored: bool
    ) -> Any:
        """The item of the class that fits the shapes; classes are in the last dimension."""
        if output.shape[1:] == (1,) and targets.dim() == 1:  # a value each, if of integers too
            targets = targets.to(output.dtype)
        is_class = not targets.is_floating_point()
        if not is_class and targets.dim() == 1:
            output, targets = output.reshape(-1, 1), targets[:, None]
        if output.shape[: targets.dim()] != targets.shape:
            raise checks.misfit(self, output, targets, f"should fit each other; {checks.OWN_TASK}")
        has_classes = is_class and output.dim() > targets.dim()
        if has_classes and self.training and self.num_classes not in (None, output.shape[-1]):
            raise checks.wrong_number(output.shape[-1], self.num_classes)
        if is_class and not has_ignored and self.training and not self._is_checked:
            checks.all_count(targets)
            self._is_checked = True
        kinds: Any = OF_CLASSES if has_classes else OF_ANSWERS
        kind = kinds.get(targets.dim(), SupervisedOutput) if is_class else RegressionOutput
        return kind(loss, output, targets, weight, has_ignored)


def _part(holder: object, name: str | None, is_needed: bool = True) -> Any:
    """The part of a batch or of a network's result; a tensor is its only part."""
    if isinstance(holder, Tensor):
        return holder
    part = structures.part(holder, name)
    if part is None and is_needed:
        raise errors.DataError(
            f"task: {type(holder).__name__} has no {name!r}, but: "
            f"{', '.join(map(str, structures.fields(holder) or ()))}; name fields of a batch in "
            "task.inputs and task.targets, the part of a result in task.output"
        )
    return part

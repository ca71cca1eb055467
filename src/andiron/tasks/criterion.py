"""The steps of supervised tasks, and a checked loss with the weight of its mean.

Gradient accumulation needs the weight of each micro-batch's mean loss, so that their weighted mean
equals the loss of one large batch.

>>> import torch
>>> criterion = Criterion(torch.nn.CrossEntropyLoss(ignore_index=-1))
>>> criterion.weight(torch.tensor([2, -1, 0])), criterion.ignored_index
(tensor(2), -1)
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from andiron import errors
from andiron.data.dataset import Batch, WeightedBatch
from andiron.gradients import backward
from andiron.outputs import IGNORED, Scalar, Weight, loss_weight
from andiron.plain import readable
from andiron.protocols import TrainOutput
from andiron.tasks import loss_settings, named_answers, target_checks as checks
from andiron.tasks.named_answers import Facts, Fields

Loss = Callable[[Tensor, Tensor], Tensor]  # (output, targets) -> mean loss of the batch

ELEMENTWISE = (nn.HuberLoss, nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss)


@runtime_checkable
class Weighted(Protocol):
    """A loss whose mean is over weights of the targets."""

    def total_weight(self, targets: Tensor) -> Weight | None:
        """The sum of the targets' weights, on the device; None if it equals their number."""


@runtime_checkable
class Balanced(Protocol):
    """A loss that depends on the classes of the training samples."""

    def balanced(self, class_counts: Sequence[int] | None) -> Loss:
        """The loss for these numbers of samples by class; None if the data does not give them."""


class Supervised(nn.Module, ABC):
    """The steps of every task that puts a loss on the outputs of `network`; abstract.

    `answer` has the fields of predictions, from outputs and the names of classes.
    """

    answer = staticmethod(named_answers.none)

    def __init__(self, network: nn.Module, loss: "Criterion | None"):
        super().__init__()
        self.network = network
        self.loss: Any = loss

    def forward(self, inputs: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "..."]:
        output = self.network(inputs)
        if not isinstance(output, Tensor):
            raise checks.no_tensor(self.network, output)
        return output

    @abstractmethod
    def predict(self, batch: Any) -> Any:
        """The item of one batch: its mean loss, the outputs and the targets.

        Raises: DataError if the shapes do not fit or, on a CPU, a target is invalid.
        """

    def train_step(self, batch: Any) -> TrainOutput:
        """The gradients of one batch, and its item for the metrics.

        The `weights` of a WeightedBatch weight the loss of each sample.
        """
        if isinstance(batch, WeightedBatch):
            with self.loss.weighted_by(batch.weights):
                item = self.predict(Batch(batch.inputs, batch.targets))
        else:
            item = self.predict(batch)
        weight = loss_weight(item) if item.weight is None else item.weight
        return TrainOutput(backward(item.loss, self, weight), item.detached(), weight)

    def valid_step(self, batch: Any) -> Any:
        """The item of one batch for the metrics, without weights."""
        if isinstance(batch, WeightedBatch):
            batch = Batch(batch.inputs, batch.targets)
        return self.predict(batch)

    def answers(self, outputs: Tensor, facts: Facts) -> Iterable[Fields]:
        """The fields of the `Prediction` of each sample."""
        return self.answer(outputs, facts.get("class_names"))

    def target_text(self, target: Tensor, facts: Facts) -> str:
        """The target of one sample, as the `text` of a prediction."""
        return named_answers.text_of(target, facts.get("class_names"))


class Criterion:
    """The loss of a task, outside its state.

    The mean of a user's loss is over the targets, unless it is `Weighted`. Its attribute or default
    argument `ignored_index`, or torch's `ignore_index`, marks targets that do not count. A
    `Balanced` loss is replaced by the one for the data.
    Raises: ValueError for a loss that is not a mean, is a class, or has trainable parameters.
    """

    def __init__(self, loss: Loss, class_counts: Sequence[int] | None = None):
        loss_settings.check(loss)
        self.loss: Any = loss.balanced(class_counts) if isinstance(loss, Balanced) else loss
        ignored = (loss_settings.setting(loss, name) for name in ("ignored_index", "ignore_index"))
        self.ignored_index: int | None = next((own for own in ignored if own is not None), None)
        names = [name for name in ("ignored_index", "ignore_index") if hasattr(loss, name)]
        self.option = f"loss.{names[0]}" if names else None
        self.has_ignored = self.ignored_index is not None  # or rather may have
        self.is_nll: bool = getattr(loss, "is_nll", False)  # -log p of the targets themselves
        self.is_elementwise = isinstance(loss, ELEMENTWISE) or hasattr(loss, "is_elementwise")
        self._is_of_samples = loss_settings.setting(loss, "reduction") == "batchmean"
        self._total_weight = self._class_weight
        if isinstance(self.loss, Weighted):
            self._total_weight = self.loss.total_weight
        self._device: torch.device | None = None  # of the tensors in a loss of torch's
        self._sample_weights: Tensor | None = None
        self._is_tried = False

    def __call__(
        self, output: Tensor, targets: Tensor, *, batch_targets: Tensor | None = None
    ) -> Scalar:
        """The mean loss; messages show `batch_targets`, the targets before they were flattened.

        Raises: MismatchError if the loss does not give a single number; DataError, on a CPU, for a
        target outside the classes. On a GPU such a target fails a device assertion at a later call,
        without sample or value: run the epoch with device=cpu to see them.
        """
        if self.is_elementwise and output.shape != targets.shape:  # torch would broadcast
            remedy = "should be of one shape; choose a loss of classes"
            remedy = checks.ONE_SHAPE if output.numel() == targets.numel() else remedy
            raise self._mismatch(output, targets, remedy)
        if output.device != self._device:
            self._move_to(output.device)
        if isinstance(self.loss, nn.BCEWithLogitsLoss):  # it takes no integers
            targets = targets.to(output.dtype)
        try:
            loss = self.loss(output, targets)
            if self._sample_weights is not None:
                loss = self._weighted(output, targets, self._sample_weights)
        except torch.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError) as error:  # values, shapes, types that torch refuses
            given = targets if batch_targets is None else batch_targets
            if not targets.is_floating_point() and output.dim() > targets.dim() > 0:
                checks.of_classes(given, output.shape[1], self.ignored_index, self.option)
            if isinstance(error, IndexError):
                raise
            raise self._mismatch(output, targets, str(error).partition("\n")[0]) from error
        if not isinstance(loss, Tensor) or loss.dim():
            raise checks.no_number(loss)
        if not self._is_tried:  # once: it takes two more losses, and waits for the device
            self._is_tried = output.numel() > 1
            loss_settings.warn_of_activations(self.loss, output.detach().float())
            if output.dim() != targets.dim() and not checks.compares_pairs(self, output, targets):
                raise self._mismatch(output, targets, checks.ONE_SHAPE)
        return loss

    def weight(self, targets: Tensor, marked: Tensor | None = None) -> Weight:
        """The count or weight that the mean loss of these targets is a mean over, on the device.

        `marked` are the targets with IGNORED for those that do not count.
        """
        if self._sample_weights is not None:
            return (self._sample_weights * self._counts(targets)).sum()
        return self._count(targets, marked)

    def _count(self, targets: Tensor, marked: Tensor | None = None) -> Weight:
        if (weight := self._total_weight(targets)) is not None:
            return weight
        if self._is_of_samples:
            return len(targets)
        marked = self.marked(targets) if marked is None else marked
        # targets of another shape are probabilities of classes, none of them ignored
        is_whole = not self.has_ignored or targets.shape != marked.shape
        return marked.numel() if is_whole else (marked != IGNORED).sum()

    @contextmanager
    def weighted_by(self, weights: Float[Tensor, " batch"] | None) -> Iterator[None]:
        """A context in which the loss is sum_i w_i n_i l_i / sum_i w_i n_i over the samples.

        l_i is the loss of sample i alone, and n_i the weight that it is a mean over: 1 for one
        class, its class weight, or the number of labels that count.
        """
        self._sample_weights = weights
        try:
            yield
        finally:
            self._sample_weights = None

    def _weighted(self, output: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        if len(weights) != len(targets):
            raise errors.MismatchError(
                f"{len(weights)} weights for {len(targets)} targets: the loss of this task is not "
                "one for each sample; leave data.weight out"
            )
        counts = weights * self._counts(targets)
        if not len(kept := counts.nonzero()[:, 0]):
            return output[kept].sum()
        of_sample = _of_each(lambda output, target: self.loss(output[None], target[None]))
        return (counts[kept] * of_sample(output[kept], targets[kept])).sum() / counts.sum()

    def _counts(self, targets: Tensor) -> Tensor:
        """The weight of each sample's mean loss, [batch]."""

        def of_sample(target: Tensor) -> Tensor:
            return torch.as_tensor(self._count(target[None]), device=targets.device)

        return _of_each(of_sample)(targets)

    def marked(self, targets: Tensor) -> Tensor:
        """The targets with IGNORED in place of this loss's ignored ones; metrics skip those."""
        if self.ignored_index in (None, IGNORED):
            return targets
        return targets.masked_fill(targets == self.ignored_index, IGNORED)

    def _class_weight(self, targets: Tensor) -> Tensor | None:
        return loss_settings.class_weight(self.loss, targets, self.ignored_index)

    def _mismatch(self, output: Tensor, targets: Tensor, reason: str) -> errors.DataError:
        return errors.DataError(
            f"loss: {readable.name_of(self.loss)} cannot compare output {list(output.shape)} with "
            f"targets {list(targets.shape)} ({targets.dtype}): {reason}"
        )

    @torch.inference_mode(False)  # a tensor from inference mode cannot be used in training
    def _move_to(self, device: torch.device) -> None:
        if isinstance(self.loss, nn.Module):
            self.loss = self.loss.to(device)
        elif isinstance(self.loss, functools.partial):
            settings = self.loss.keywords.items()
            tensors = {name: own.to(device) for name, own in settings if isinstance(own, Tensor)}
            self.loss = functools.partial(self.loss, **tensors)
        self._device = device


def _of_each(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function of all samples at once, or of one after the other if vmap cannot take it."""

    def of_all(*tensors: Tensor) -> Tensor:
        try:
            return torch.vmap(function)(*tensors)
        except RuntimeError:
            return torch.stack([function(*sample) for sample in zip(*tensors, strict=True)])

    return of_all


def as_int64(targets: object) -> Any:
    """Integers and booleans as int64, which torch's losses of classes need; others as they are."""
    if not isinstance(targets, Tensor) or targets.dtype == torch.int64:
        return targets
    return targets if targets.is_floating_point() else targets.long()

"""Losses: what a task minimises, and what each is a mean over, by which micro-batches make up one large batch."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from andiron import errors
from andiron.outputs import IGNORED, Weight
from andiron.ranges import Fraction, Positive
from andiron.tasks import target_checks as checks

Loss = Callable[[Tensor, Tensor], Tensor]  # (output, targets) to the mean loss of the batch
NO_INDEX = -(2**63)  # given to torch where nothing is ignored: left to itself it ignores -100
CLASS_LOSSES = (
    functional.cross_entropy,
    functional.nll_loss,
)  # their mean is over the class weights of the targets
CLASS_LOSS_MODULES = (nn.CrossEntropyLoss, nn.NLLLoss)


class CrossEntropy:
    """sum_i w[y_i] * -log softmax(output_i)[y_i] / sum_i w[y_i] over the samples that are not ignored.

    `class_weights` w are 1 by default; "balanced" makes them n / (classes * n_c), with n_c samples of class c among n.
    Targets may be probabilities, [batch classes]; the mean is then over the samples, as torch has it. A batch all of
    whose targets are ignored has loss 0. Unlike torch's, nothing is ignored unless said.
    Source: King & Zeng 2001, "Logistic Regression in Rare Events Data", section 4.2 (balanced);
    Szegedy et al. 2016, arXiv:1512.00567, section 7 (label smoothing).
    Raises: ValueError for a weight that is not positive, or a smoothing that is not in [0, 1).
    """

    def __init__(
        self,
        class_weights: Sequence[Positive] | Literal["balanced"] | None = None,
        label_smoothing: Fraction = 0.0,
        *,
        ignored_index: int | None = None,
    ):
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                f"label_smoothing={label_smoothing}: should be at least 0 and less than 1"
            )
        self.is_nll = (
            class_weights is None and not label_smoothing
        )  # -log p of the targets themselves
        self.is_balanced = class_weights == "balanced"
        self.label_smoothing = label_smoothing
        self.ignored_index = ignored_index
        self.class_weights = (
            None if class_weights == "balanced" else _positive("class_weights", class_weights)
        )

    def balanced(self, class_counts: Sequence[int] | None) -> "CrossEntropy":
        """This loss, with weights from the classes' numbers of samples if it is to have them.

        Raises: ValueError if they are needed and unknown, or a class has no sample.
        """
        if not self.is_balanced:
            return self
        if not class_counts or min(class_counts) < 1:
            found = (
                "the data does not tell its class_counts"
                if not class_counts
                else f"class_counts are {[*class_counts]}"
            )
            raise ValueError(
                f"loss.class_weights=balanced: {found}; each class needs samples, or give a weight for each"
            )
        weights = [sum(class_counts) / (len(class_counts) * count) for count in class_counts]
        return CrossEntropy(weights, self.label_smoothing, ignored_index=self.ignored_index)

    def total_weight(self, targets: Shaped[Tensor, "batch ..."]) -> Weight | None:
        """The sum of the targets' class weights; None if that is their number."""
        if self.class_weights is None or targets.is_floating_point():
            return None
        return _total(self.class_weights, targets, self.ignored_index)

    def __call__(
        self, output: Float[Tensor, "batch classes"], targets: Shaped[Tensor, "batch ..."]
    ) -> Float[Tensor, ""]:
        weights, smoothing = self.class_weights, self.label_smoothing
        if weights is not None:
            output = _full(output)
            weights = self.class_weights = _like(output, weights)
        if self.ignored_index is None or targets.is_floating_point():
            return functional.cross_entropy(
                output, targets, weights, ignore_index=NO_INDEX, label_smoothing=smoothing
            )
        known = (targets != self.ignored_index).sum()
        total = known if weights is None else _total(weights, targets, self.ignored_index)
        summed = functional.cross_entropy(
            output,
            targets,
            weights,
            ignore_index=self.ignored_index,
            reduction="sum",
            label_smoothing=smoothing,
        )
        return summed / (total + (known == 0))


class BinaryCrossEntropy:
    """The mean of -p * y * log s - (1 - y) * log(1 - s) over the targets y that are not ignored, s = sigmoid(output).

    `positive_weight` p is 1 by default, one number or one for each label; it has no part in what the mean is over.
    A batch all of whose targets are ignored has loss 0.
    Raises: ValueError for a weight that is not positive.
    """

    def __init__(
        self,
        positive_weight: Positive | Sequence[Positive] | None = None,
        *,
        ignored_index: int | None = None,
    ):
        weights = [positive_weight] if isinstance(positive_weight, float | int) else positive_weight
        self.ignored_index = ignored_index
        self.positive_weight = _positive("positive_weight", weights)

    def __call__(
        self, output: Float[Tensor, " *shape"], targets: Shaped[Tensor, " *shape"]
    ) -> Float[Tensor, ""]:
        output = _full(output)
        if self.positive_weight is not None:
            self.positive_weight = _like(output, self.positive_weight)
        weight = self.positive_weight
        binary = functional.binary_cross_entropy_with_logits
        if self.ignored_index is None:
            return binary(output, targets.to(output.dtype), pos_weight=weight)
        is_known = targets != self.ignored_index
        known = torch.where(is_known, targets, 0).to(output.dtype)
        return binary(
            output, known, is_known.to(output.dtype), pos_weight=weight, reduction="sum"
        ) / is_known.sum().clamp(1)


class MeanSquaredError:
    """The mean of (output - targets)^2 over all values; torch.nn.HuberLoss and L1Loss can stand in its place."""

    def __call__(
        self, output: Float[Tensor, " *shape"], targets: Float[Tensor, " *shape"]
    ) -> Float[Tensor, ""]:
        return functional.mse_loss(output, targets)


class Criterion:
    """A loss as tasks hold it: no part of their state, on the device of what it is given, with its weight told.

    A loss of one's own is a mean over the targets, unless it has `total_weight(targets)` to say what else; what it has or
    takes as `ignored_index`, or torch's `ignore_index`, counts nowhere.
    Raises: ValueError for a loss that is no mean, is a class, or has parameters that nothing would train.
    """

    def __init__(self, loss: Loss, class_counts: Sequence[int] | None = None):
        if isinstance(loss, type):
            raise ValueError(
                f"loss={loss.__name__}: is a class; give an object of it, in YAML without _partial_"
            )
        self.loss: Any = loss.balanced(class_counts) if isinstance(loss, CrossEntropy) else loss
        reduction = _setting(loss, "reduction")
        if reduction not in (None, "mean"):
            raise ValueError(
                f"loss.reduction={reduction}: should be mean, by which batches of any size weigh alike"
            )
        parameters = (
            [name for name, _ in loss.named_parameters()] if isinstance(loss, nn.Module) else []
        )
        if parameters:
            raise ValueError(
                f"loss has parameters ({', '.join(parameters)}) that nothing would train; put them in the network"
            )
        ignored = (_setting(loss, name) for name in ("ignored_index", "ignore_index"))
        self.ignored_index: int | None = next(
            (index for index in ignored if index is not None), None
        )
        self._is_elementwise = isinstance(
            self.loss, (MeanSquaredError, nn.HuberLoss, nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss)
        )
        self.is_nll = isinstance(loss, CrossEntropy) and loss.is_nll
        self._told: Any = getattr(self.loss, "total_weight", None)
        self._device: torch.device | None = None  # where a loss of torch's has its tensors

    def __call__(
        self, output: Tensor, targets: Tensor, *, as_given: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """The mean loss; `as_given` are the targets in the shape that the batch has them in, for messages.

        Raises: ValueError if the loss gives no single number; DataError, on a CPU, for a target that names no class. On a GPU
        such a target trips an assertion on the device, which tells neither sample nor value, at some later call: run the
        epoch with device=cpu to be told.
        """
        if (
            self._is_elementwise and output.shape != targets.shape
        ):  # torch would repeat the one along the other
            remedy = "should be of one shape; choose a loss of classes"
            raise errors.DataError(f"loss: {self._mismatch(output, targets)}: {remedy}")
        if output.device != self._device:
            self._move_to(output.device)
        try:
            loss = self.loss(output, targets)
        except IndexError as error:  # of torch's cross entropy
            cause = checks.no_class(
                targets if as_given is None else as_given, output.shape[-1], self.ignored_index
            )
            if cause is None:
                raise
            raise cause from error
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # shapes and types that torch's functions do not take
            raise errors.DataError(
                f"loss: {self._mismatch(output, targets)}: {_first_line(error)}"
            ) from error
        if not isinstance(loss, Tensor) or loss.dim():
            shown = (
                f"a tensor {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            )
            raise errors.MismatchError(
                f"loss gives {shown}, not one number; have it return the mean over the batch"
            )
        return loss

    def _mismatch(self, output: Tensor, targets: Tensor) -> str:
        name = getattr(self.loss, "__name__", type(self.loss).__name__)
        return f"{name} cannot compare output {list(output.shape)} with targets {list(targets.shape)} ({targets.dtype})"

    def of_tokens(
        self, logits: Float[Tensor, "batch time classes"], targets: Tensor
    ) -> Float[Tensor, ""]:
        """The mean loss over all tokens of all sequences."""
        return self(logits.flatten(0, 1), targets.flatten(), as_given=targets)

    def weight(self, targets: Tensor) -> Weight | None:
        """What the loss of these targets is a mean over; None if that is the number of targets that are not ignored."""
        if self._told is not None:
            told: Weight | None = self._told(targets)
            return told
        weights = _class_weights(self.loss)
        return (
            None
            if weights is None or targets.is_floating_point()
            else _total(weights, targets, self.ignored_index)
        )

    def marked(self, targets: Tensor) -> Tensor:
        """The targets with IGNORED in place of what this loss ignores: that is what metrics leave out."""
        if self.ignored_index is None or self.ignored_index == IGNORED:
            return targets
        return targets.masked_fill(targets == self.ignored_index, IGNORED)

    @torch.inference_mode(False)  # what is made in that mode could not be trained with
    def _move_to(self, device: torch.device) -> None:
        if isinstance(self.loss, nn.Module):
            self.loss = self.loss.to(device)
        elif isinstance(self.loss, functools.partial):
            moved = {
                name: value.to(device) if isinstance(value, Tensor) else value
                for name, value in self.loss.keywords.items()
            }
            self.loss = functools.partial(self.loss.func, *self.loss.args, **moved)
        self._device = device


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _class_weights(loss: Any) -> Tensor | None:
    """Of torch's own losses of classes, whose mean is over them."""
    is_of_classes = (
        isinstance(loss, CLASS_LOSS_MODULES) or getattr(loss, "func", None) in CLASS_LOSSES
    )
    weights: Tensor | None = _setting(loss, "weight") if is_of_classes else None
    return weights


def _setting(loss: Any, name: str) -> Any:
    """What a loss has under this name, or takes as its default."""
    if hasattr(loss, name):
        return getattr(loss, name)
    try:
        parameter = inspect.signature(loss).parameters.get(name)
    except (TypeError, ValueError):  # a callable that does not tell
        return None
    return None if parameter is None or parameter.default is parameter.empty else parameter.default


def _total(
    weights: Float[Tensor, " classes"], targets: Tensor, ignored_index: int | None
) -> Float[Tensor, ""]:
    """The sum of the targets' class weights, left on the device."""
    if ignored_index is None:
        return weights[targets].sum()
    is_known = targets != ignored_index
    return (weights[torch.where(is_known, targets, 0)] * is_known).sum()


def _positive(name: str, values: Sequence[float] | None) -> Float[Tensor, " classes"] | None:
    if values is None:
        return None
    if not values or not all(0 < value < float("inf") for value in values):
        raise ValueError(f"{name}={[*values]}: each should be a number greater than 0")
    return torch.tensor(values, dtype=torch.float32)


def _like(output: Tensor, weights: Tensor) -> Tensor:
    """The weights on the device and in the type of the output."""
    if weights.device == output.device and weights.dtype == output.dtype:
        return weights
    with torch.inference_mode(False):  # what is made in that mode could not be trained with
        return weights.to(output.device, output.dtype)


def _full(output: Tensor) -> Tensor:
    """Half precision as float32, in which a loss is summed up."""
    return output.float() if output.dtype.itemsize < 4 else output

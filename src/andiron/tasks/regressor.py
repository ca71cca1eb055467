"""Regression: mean squared error, and the steps around a network that predicts values.

>>> import torch
>>> from andiron.data import Batch
>>> task = Regressor(torch.nn.Linear(4, 1), target_mean=100.0, target_std=20.0)
>>> task.valid_step(Batch(torch.zeros(5, 4), torch.full((5,), 90.0))).output.shape
torch.Size([5, 1])
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from andiron import errors
from andiron.data.dataset import Batch
from andiron.outputs import RegressionOutput, Scalar, at_least_float32, named
from andiron.protocols import TrainOutput
from andiron.ranges import Number, Positive
from andiron.recording import keep_arguments
from andiron.tasks import named_answers, target_checks as checks
from andiron.tasks.named_answers import Facts, Fields
from andiron.tasks.classifier import BinaryCrossEntropy, CrossEntropy
from andiron.tasks.criterion import Criterion, Loss, Supervised
from andiron.tasks.loss_settings import CLASS_LOSSES

ANSWER_LOSSES = (CrossEntropy, BinaryCrossEntropy, nn.BCEWithLogitsLoss, nn.BCELoss)
Numbers = Number | Sequence[Number]
Scales = Positive | Sequence[Positive]


@keep_arguments
class MeanSquaredError:
    """The mean of (output - targets)^2 over all values."""

    is_elementwise = True

    def __call__(
        self, output: Float[Tensor, " *shape"], targets: Float[Tensor, " *shape"]
    ) -> Scalar:
        return functional.mse_loss(output, targets)


@keep_arguments
class Regressor(Supervised):
    """Regression with `network`; outputs and metrics are in the targets' unit.

    The network predicts standardised values z, and y = target_mean + target_std * z; the loss is
    that of z. Mean and standard deviation are of the training targets, one number or one per
    output; 0 and 1 if not given. They are not part of `state_dict()`. Targets come less a
    `target_offset`, and outputs and metrics have it back, in float64.
    Targets [batch] are treated as [batch 1]; images [batch channels height width] work too. The
    loss gets its `ignored_index`, if it has one, in place of such targets, not standardised.
    Raises: ValueError for a standard deviation that is not positive, and a loss of classes or of
    standardised counts.
    """

    target_mean: Tensor
    target_std: Tensor
    wanted_fact = "num_outputs"

    def __init__(
        self,
        network: nn.Module,
        loss: Loss | None = None,
        *,
        target_mean: Numbers | None = None,
        target_std: Scales | None = None,
        target_offset: Numbers | None = None,
    ):
        super().__init__(network, Criterion(loss or MeanSquaredError()))
        # the shapes would fit, but the loss would be meaningless
        if isinstance(loss, (*CLASS_LOSSES, *ANSWER_LOSSES)):
            raise ValueError(
                f"loss: {type(loss).__name__} is of classes; choose one of values, such as "
                "loss=mean_squared_error"
            )
        mean = _numbers(0.0 if target_mean is None else target_mean)
        self.target_offset = None if target_offset is None else _numbers(target_offset).tolist()
        if target_offset is not None:
            mean = mean - _numbers(target_offset)
        std = _numbers(1.0 if target_std is None else target_std).float()
        if not bool((std > 0).all()):
            raise ValueError(
                f"target_std={target_std}: should be greater than 0; a constant target cannot be "
                "learned"
            )
        is_unchanged = not mean.any() and bool((std == 1).all())
        if isinstance(loss, nn.PoissonNLLLoss) and (loss.log_input or not is_unchanged):
            raise ValueError(
                "loss: PoissonNLLLoss compares rates with counts, and the task standardises both; "
                "set task.target_mean=0 task.target_std=1 +loss.log_input=false, with a network "
                "that ends in softplus"
            )
        self._unknown = target_mean is None, target_std is None
        if isinstance(loss, nn.PoissonNLLLoss):
            self._unknown = False, False
        self.register_buffer("target_mean", mean.float(), persistent=False)
        self.register_buffer("target_std", std, persistent=False)

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "..."]:
        return self.in_unit(self.target_mean + self.target_std * self._standardised(inputs))

    def train_step(self, batch: Any) -> TrainOutput:
        output = super().train_step(batch)
        if any(self._unknown):  # once: it waits for the device
            checks.warn_of_unit(output.item.targets, *self._unknown)
            self._unknown = False, False
        return output

    def in_unit(self, values: Tensor) -> Tensor:
        """The values with the `target_offset`, which float32 would blur."""
        if self.target_offset is None:
            return values
        dtype = torch.float32 if values.device.type == "mps" else torch.float64
        return values.to(dtype) + torch.tensor(self.target_offset, dtype=dtype).to(values.device)

    def predict(self, batch: Batch) -> RegressionOutput:
        """The loss in standardised units, and the predictions of one batch in the targets' unit.

        Raises: DataError if the shapes do not fit; torch would broadcast [batch 1] and [batch].
        """
        standardised = self._standardised(batch.inputs)
        targets = _column(batch.targets.to(standardised.dtype))
        if standardised.dim() < 2 or standardised.shape != targets.shape:
            remedy = f"should be a value for every target: num_outputs; {checks.OWN_TASK}"
            raise checks.misfit(self, standardised, batch.targets, remedy)
        expected = (targets - self.target_mean) / self.target_std
        is_scalar = len(self.target_mean) == len(self.target_std) == 1
        if expected.shape != targets.shape or not (targets.dim() == 2 or is_scalar):
            raise errors.DataError(
                f"target_mean has {len(self.target_mean)} numbers and target_std "
                f"{len(self.target_std)} for {targets.shape[1]} outputs; "
                "should be one number, or one for each output"
            )
        ignored, has_ignored = self.loss.ignored_index, self.loss.has_ignored
        if has_ignored:  # also in the loss's units
            expected = expected.masked_fill(targets == ignored, ignored)
        loss, weight = self.loss(standardised, expected), self.loss.weight(targets)
        output = self.in_unit(self.target_mean + self.target_std * standardised)
        marked = self.in_unit(self.loss.marked(targets))
        return RegressionOutput(loss, output, marked, weight, has_ignored)

    def answers(self, outputs: Tensor, facts: Facts) -> Iterable[Fields]:
        """The values of each sample, by column; none for images."""
        if outputs.dim() != 2:
            return named_answers.none(outputs, None)
        names = named(facts.get("target_columns"), outputs.shape[1])
        return [
            {"values": dict(zip(names, row.tolist())), "text": self.target_text(row, facts)}
            for row in outputs
        ]

    def _standardised(self, inputs: Tensor) -> Tensor:
        return _column(at_least_float32(super().forward(inputs)))


def _column(values: Tensor) -> Tensor:
    return values[:, None] if values.dim() == 1 else values


def _numbers(values: Numbers) -> Float[Tensor, " outputs"]:
    return torch.as_tensor(values, dtype=torch.float64).reshape(-1)

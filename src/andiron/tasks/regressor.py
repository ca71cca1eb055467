"""Regression: the steps around any network that turns a batch of inputs into values."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from andiron import errors, outputs
from andiron.data.dataset import Batch
from andiron.gradients import backward
from andiron.outputs import RegressionOutput
from andiron.protocols import TrainOutput
from andiron.ranges import Number, Positive
from andiron.tasks import target_checks as checks
from andiron.tasks.losses import BinaryCrossEntropy, Criterion, CrossEntropy, Loss, MeanSquaredError

OF_CLASSES = (
    CrossEntropy,
    BinaryCrossEntropy,
    nn.CrossEntropyLoss,
    nn.NLLLoss,
    nn.BCEWithLogitsLoss,
    nn.BCELoss,
)

Numbers = Number | Sequence[Number]
Scales = Positive | Sequence[Positive]


class Regressor(nn.Module):
    """`network` with the steps of regression; what comes out, and what metrics see, is in the targets' own unit.

    The network gives standardised values z, and y = target_mean + target_std * z; the loss is that of z. Mean and spread are
    those of the training targets, one number or one for each output, 0 and 1 if the run does not offer them; they are
    no part of `state_dict()`. Targets [batch] are taken as [batch 1].
    Raises: ValueError for a spread that is not positive, or a loss of classes.
    """

    target_mean: Tensor
    target_std: Tensor
    wanted_fact: ClassVar[str] = "num_outputs"

    def __init__(
        self,
        network: nn.Module,
        loss: Loss | None = None,
        *,
        target_mean: Numbers | None = None,
        target_std: Scales | None = None,
    ):
        super().__init__()
        self.network = network
        self.loss = Criterion(MeanSquaredError() if loss is None else loss)
        if isinstance(loss, OF_CLASSES):  # the shapes would do: the numbers would mean nothing
            raise ValueError(
                f"loss: {type(loss).__name__} is of classes; choose one of values, such as loss=mean_squared_error"
            )
        std = _numbers(1.0 if target_std is None else target_std)
        if not bool((std > 0).all()):
            raise ValueError(
                f"target_std={target_std}: should be greater than 0; a target that never varies tells nothing"
            )
        self.register_buffer(
            "target_mean", _numbers(0.0 if target_mean is None else target_mean), persistent=False
        )
        self.register_buffer("target_std", std, persistent=False)

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "..."]:
        return self.target_mean + self.target_std * self._standardised(inputs)

    def regress(self, batch: Batch) -> RegressionOutput:
        """The loss in standardised units, and the values of one batch in the targets' own.

        Raises: DataError if the shapes do not fit; torch's losses would broadcast [batch 1] against [batch].
        """
        standardised = self._standardised(batch.inputs)
        targets = _column(batch.targets.to(standardised.dtype))
        if standardised.dim() != 2 or standardised.shape != targets.shape:
            raise checks.misfit(
                self, standardised, batch.targets, "should be a value for every target: num_outputs"
            )
        expected = (targets - self.target_mean) / self.target_std
        if expected.shape != targets.shape:
            units = f"target_mean has {len(self.target_mean)} numbers and target_std {len(self.target_std)}"
            raise errors.DataError(
                f"{units} for {targets.shape[1]} outputs; should be one number, or one for each output"
            )
        loss = self.loss(standardised, expected)
        output = self.target_mean + self.target_std * standardised
        return RegressionOutput(loss, output, targets, self.loss.weight(targets))

    def train_step(self, batch: Batch) -> TrainOutput:
        """The gradients of one batch, and its output for the metrics."""
        item = self.regress(batch)
        return TrainOutput(
            backward(item.loss, self), item.detached(), weight=outputs.loss_weight(item)
        )

    def valid_step(self, batch: Batch) -> RegressionOutput:
        """The output of one batch for the metrics."""
        return self.regress(batch)

    def _standardised(self, inputs: Tensor) -> Tensor:
        values: Tensor = self.network(inputs)
        return _column(
            values.float() if values.dtype.itemsize < 4 else values
        )  # half precision is too coarse for values


def _column(values: Tensor) -> Tensor:
    return values[:, None] if values.dim() == 1 else values


def _numbers(values: Numbers) -> Float[Tensor, " outputs"]:
    return torch.tensor(
        [values] if isinstance(values, float | int) else [*values], dtype=torch.float32
    )

"""Calibration of probabilities: the expected calibration error and the Brier score."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from andiron.metrics.classification.classifier_rows import CLASSES, rows
from andiron.outputs import sum_dtype
from andiron.protocols import Parts
from andiron.ranges import Count


@dataclass(kw_only=True)
class ExpectedCalibrationError:
    """sum_m |B_m| / n |acc(B_m) - conf(B_m)| over bins B_m of equal width.

    B_m holds the samples with confidence in ((m-1)/M, m/M]. The confidence is the largest
    probability; for yes-or-no answers the larger one of yes and no. None where nothing was counted
    or a logit is NaN.
    Source: Guo et al. 2017, arXiv:1706.04599, equations 2 and 3; its section 4 has 15 bins.
    """

    bins: Count = 15
    name: str = "calibration_error"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        """For each bin: its samples, how many of them are right, the sum of their confidences."""
        measured = rows(item)
        logits = measured.logits.float()
        is_classes = measured.kind == CLASSES
        likeliest = logits.softmax(-1).amax(-1) if is_classes else logits.abs().sigmoid()
        confidence = likeliest.flatten()
        right = (measured.decided(0.5) == measured.targets).flatten()
        numbers = torch.arange(self.bins, device=logits.device)
        edges = numbers[1:].float() / self.bins
        member = torch.bucketize(confidence, edges)[:, None] == numbers
        if measured.counted is not None:
            member = member & measured.counted.flatten()[:, None]
        values = torch.stack([torch.ones_like(confidence), right.float(), confidence])
        # not scatter_add: float atomics on a GPU differ from run to run
        chosen = torch.where(member, values[:, :, None], 0.0)
        return (chosen.sum(1, dtype=sum_dtype(logits.device)),)

    def value(self, sums: Float[Tensor, "3 bins"]) -> float | None:
        number, right, confidence = sums
        error = float((right - confidence).abs().sum() / number.sum())
        return None if math.isnan(error) else error


@dataclass(kw_only=True)
class BrierScore:
    """The mean over the samples of sum_k (p_k - y_k)^2 over the classes, between 0 and 2.

    For yes-or-no answers (p - y)^2 of the yes alone, between 0 and 1. Both are scikit-learn's
    `brier_score_loss`.
    Source: Brier 1950, "Verification of forecasts expressed in terms of probability", equation 2.
    """

    name: str = "brier_score"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        measured = rows(item)
        logits, targets = measured.logits.float(), measured.indices()
        if measured.kind == CLASSES:
            truths = targets[:, None] == torch.arange(logits.shape[-1], device=logits.device)
            squares = (logits.softmax(-1) - truths.float()).square().sum(-1)
        else:
            squares = (logits.sigmoid() - (targets == 1).float()).square()
        squares = squares.to(sum_dtype(squares.device))
        return measured.only(squares), measured.count()

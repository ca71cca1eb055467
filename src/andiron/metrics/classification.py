"""Metrics of any output that has a loss, and of a classifier's."""

from typing import Any

from torch import Tensor

from andiron import outputs


class Loss:
    """The mean loss, each batch weighted by what its loss is a mean over, so that a short last batch cannot skew it."""

    name = "loss"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, outputs.Weight]:
        weight = outputs.loss_weight(item)
        return item.loss * weight, weight


class Accuracy:
    """The fraction of targets that the largest logit names; those that are IGNORED count nowhere."""

    name = "accuracy"
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        return item.output.argmax(dim=-1) == item.targets, outputs.num_targets(item)

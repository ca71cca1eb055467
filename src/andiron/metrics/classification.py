"""Metrics of a classifier's output."""

from torch import Tensor

from andiron.outputs import ClassificationOutput


class Loss:
    """The mean loss, each batch weighted by its size, so that a short last batch cannot skew it."""

    name = "loss"
    higher_is_better = False

    def __call__(self, item: ClassificationOutput) -> tuple[Tensor, int]:
        count = len(item.targets)
        return item.loss * count, count


class Accuracy:
    """The fraction of samples whose largest logit is the target's."""

    name = "accuracy"
    higher_is_better = True

    def __call__(self, item: ClassificationOutput) -> tuple[Tensor, int]:
        return item.output.argmax(dim=-1) == item.targets, len(item.targets)

"""Metrics refuse options without a meaning and items that they cannot measure."""

import math
from functools import partial

import pytest
import torch
from classification_items import LOSS, measured

from andiron import errors, metrics
from andiron.outputs import (
    BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
    RegressionOutput, SequenceOutput,
)  # fmt: skip
from refusals import message_of

SMALL = ClassificationOutput(LOSS, torch.eye(3), torch.arange(3))
ANSWERS = BinaryClassificationOutput(LOSS, torch.zeros(3), torch.tensor([0, 1, 1]))
LABELS = MultiLabelClassificationOutput(LOSS, torch.zeros(3, 2), torch.ones(3, 2).long())
VALUES = RegressionOutput(LOSS, torch.zeros(5, 1), torch.zeros(5, 1))
TOKENS = SequenceOutput(LOSS, torch.zeros(1, 3, 2), torch.zeros(1, 3).long())
SCORES = (metrics.Precision, metrics.Recall, metrics.FBeta, metrics.Specificity)
TABLES = (metrics.ConfusionMatrix, metrics.PerClass)
ERRORS = (
    metrics.MeanAbsoluteError, metrics.MeanSquaredError, metrics.RootMeanSquaredError, metrics.R2,
    metrics.ExplainedVariance,
)  # fmt: skip
ONE_OF_SEVERAL = "measures answers that are one of several classes"


def averaged(metric, average, item):
    """The value by an average that the type checker of the tests refuses as an argument."""
    metric.average = average
    return measured(metric, [item])


def thresholds():
    """A threshold that all or none are above, for every metric that has one."""
    for build in (*SCORES, *TABLES):
        for threshold in (0.0, 1.0, -0.5, 1, math.nan, 1.5):
            yield (lambda build=build, threshold=threshold: build(threshold=threshold)(ANSWERS),
                   f"threshold={threshold}: should be between 0 and 1, both excluded")  # fmt: skip
    for build in (metrics.HammingAccuracy, metrics.ExactMatch):
        yield (lambda build=build: build(threshold=0.0)(LABELS),
               "threshold=0.0: should be between 0 and 1, both excluded; 0.5 is the")  # fmt: skip


REFUSED = [
    *thresholds(),
    (lambda: metrics.TopKAccuracy(k=5, num_classes=3), "k=5: should be at most 3, the number of"),
    (lambda: averaged(metrics.Precision(), "makro", SMALL),
     "average=makro: should be micro or macro or weighted or none; did you mean 'macro'?"),
    *[(partial(averaged, build(), "samples", SMALL),
       "average=samples: should be micro or macro or weighted or none; choose one of these")
      for build in (metrics.AUROC, metrics.AveragePrecision)],
    *[(partial(averaged, build(), "uniforn", RegressionOutput(LOSS, torch.eye(3), torch.eye(3))),
       "; did you mean 'uniform'?") for build in ERRORS],
    *[(partial(measured, build(class_names=["a"], **more), [SMALL]),
       "class_names=['a']: 1 names for 3 classes; give one for each")
      for build, more in ((metrics.Precision, {"average": "none"}), (metrics.ConfusionMatrix, {}),
                          (metrics.AUROC, {"average": "none"}), (metrics.PerClass, {}))],
    (partial(metrics.ConfusionMatrix(), LABELS),
     f"confusion_matrix: {ONE_OF_SEVERAL}, or yes or no, not"),
    (lambda: metrics.TopKAccuracy()(LABELS), f"top_5_accuracy: {ONE_OF_SEVERAL}, not any of"),
    (lambda: metrics.ExactMatch()(SMALL),
     "exact_match: measures answers that are any of several labels, not one of several"),
    (lambda: metrics.Precision()(VALUES),
     "output [5, 1] with float32 targets [5, 1]: not a classifier's; give integer targets"),
    *[(partial(build(name="m"), ClassificationOutput(LOSS, torch.zeros(3, 3), torch.arange(3))),
       "has an output [3, 3] and targets [3]; it is for regression") for build in ERRORS],
    *[(partial(build, top_k=4, num_classes=3), "top_k=4: should be at most 3, the number of cla")
      for build in (*SCORES, metrics.PerClass)],
    *[(partial(build(top_k=4), SMALL), "top_k=4: there are 3 classes; give a smaller")
      for build in (*SCORES, metrics.PerClass)],
    *[(partial(build(top_k=2), ANSWERS), "with top_k=2: measures answers that are one of several")
      for build in (*SCORES, metrics.PerClass)],
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_has_no_meaning_is_refused(call, words):
    assert words in message_of(ValueError, call)


def test_bits_per_byte_needs_the_number_of_bytes():
    assert message_of(errors.DataError, metrics.BitsPerByte(name="bits"), TOKENS) == (
        "bits: SequenceOutput has no number of bytes of its targets; give it num_bytes, or leave "
        "the metric out, on the command line by ~metrics.bits"
    )


@pytest.mark.parametrize("target", [3, -1])
@pytest.mark.parametrize("build", [metrics.Precision, metrics.ConfusionMatrix])
def test_a_target_that_is_neither_class_nor_ignored_is_an_error(build, target):
    item = ClassificationOutput(LOSS, torch.eye(3)[[0, 2]], torch.tensor([0, target]))
    assert "out of bounds" in message_of(RuntimeError, build(), item)

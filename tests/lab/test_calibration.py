"""The calibration error beside a loop, the Brier score beside scikit-learn's, both by hand."""

import math

import numpy
import pytest
import torch
from fast.metrics.classification_items import (
    LOSS, binary, classes, close, labels, laws, measured, shuffled,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from andiron.outputs import IGNORED, BinaryClassificationOutput, ClassificationOutput
from andiron_lab.scores.calibration import BrierScore, ExpectedCalibrationError

# at most 55 float32 probabilities are added up, each right to 1e-7
rounded = {"rel": 1e-5, "abs": 1e-6}
drawn_items = st.one_of(classes(), binary(), labels(), labels(ignored=True))


def calibration_error(confidence, right, bins):
    error = 0.0
    for lower in range(bins):
        member = (confidence > numpy.float32(lower / bins)) & (
            confidence <= numpy.float32((lower + 1) / bins)
        )
        if member.any():
            error += member.mean() * abs(
                right[member].mean() - confidence[member].astype(float).mean()
            )
    return error


@laws
@given(drawn=drawn_items, bins=st.sampled_from([1, 2, 7, 15]), data=st.data())
def test_the_calibration_error_is_that_of_a_loop_over_bins(drawn, bins, data):
    value = shuffled(ExpectedCalibrationError(bins=bins), drawn.items, data)
    logits = drawn.logits[drawn.targets != IGNORED]
    if not len(logits):
        assert value is None
        return
    probability = (
        logits.softmax(-1).amax(-1)
        if logits.ndim == 2
        else torch.maximum(logits.sigmoid(), (-logits).sigmoid())
    )
    decided = logits.argmax(-1) if logits.ndim == 2 else (logits > 0).long()
    expected = calibration_error(probability.numpy(), decided.numpy() == drawn.true, bins)
    assert value == pytest.approx(expected, **rounded)


def test_a_calibration_error_by_hand():
    probability = torch.tensor([0.6, 0.7, 0.9, 0.95, 0.05])
    item = BinaryClassificationOutput(LOSS, probability.logit(), torch.tensor([1, 0, 1, 0, 0]))
    # four bins: (0.5, 0.75] has two samples, one right, mean confidence 0.65;
    # (0.75, 1] has three, two right, mean confidence 2.8 / 3
    expected = 2 / 5 * abs(1 / 2 - 1.3 / 2) + 3 / 5 * abs(2 / 3 - 2.8 / 3)
    assert measured(ExpectedCalibrationError(bins=4), [item]) == pytest.approx(expected, **rounded)


def test_a_confidence_on_an_edge_is_in_the_bin_below_it():
    item = BinaryClassificationOutput(LOSS, torch.tensor([0.0, 0.0, 9.0]), torch.tensor([1, 0, 1]))
    (sums,) = ExpectedCalibrationError(bins=2)(item)
    assert sums[0].tolist() == [2.0, 1.0]
    assert sums[1].tolist() == [1.0, 1.0]


def test_sure_and_right_is_no_error_and_sure_and_wrong_is_all():
    logits = torch.tensor([[200.0, 0.0], [0.0, 200.0]])
    for targets, expected in (([0, 1], 0.0), ([1, 0], 1.0)):
        item = ClassificationOutput(LOSS, logits, torch.tensor(targets))
        assert measured(ExpectedCalibrationError(), [item]) == expected
        assert measured(BrierScore(), [item]) == 2 * expected


@laws
@given(drawn=st.one_of(classes(), binary()), data=st.data())
def test_the_brier_score_is_scikit_learns(drawn, data):
    reference = pytest.importorskip("sklearn.metrics").brier_score_loss
    value = shuffled(BrierScore(), drawn.items, data)
    if not len(drawn.true):
        assert value is None
        return
    several = drawn.kept.ndim == 2
    probability = (drawn.kept.softmax(-1) if several else drawn.kept.sigmoid()).numpy()
    options = (
        {"labels": range(probability.shape[1])} if several else {"pos_label": 1, "labels": [0, 1]}
    )
    expected = reference(drawn.true, probability, scale_by_half=not several, **options)
    assert value == pytest.approx(expected, **rounded)


@laws
@given(drawn=labels(ignored=True), data=st.data())
def test_the_brier_score_of_labels_is_the_mean_over_those_that_count(drawn, data):
    squares = (drawn.kept.sigmoid() - torch.from_numpy(drawn.true)).square()
    expected = float(squares.mean()) if len(squares) else None
    assert shuffled(BrierScore(), drawn.items, data) == close(expected, **rounded)


def test_a_brier_score_by_hand():
    item = ClassificationOutput(
        LOSS, torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]).log(), torch.tensor([1, 2])
    )
    assert measured(BrierScore(), [item]) == pytest.approx(
        ((0.25 + 0.49 + 0.04) + (0.01 + 0.01 + 0.04)) / 2, **rounded
    )
    item = BinaryClassificationOutput(LOSS, torch.tensor([0.75, 0.4]).logit(), torch.tensor([1, 1]))
    assert measured(BrierScore(), [item]) == pytest.approx((0.0625 + 0.36) / 2, **rounded)


def test_half_precision_logits_are_added_up_in_float64():
    for dtype in (torch.bfloat16, torch.float16):
        item = ClassificationOutput(
            LOSS, torch.randn(7, 3).to(dtype), torch.tensor([0, 1, 2, 1, 0, 0, 2])
        )
        assert (
            ExpectedCalibrationError()(item)[0].dtype
            == BrierScore()(item)[0].dtype
            == torch.float64
        )


def test_a_nan_logit_leaves_no_calibration_error():
    item = ClassificationOutput(
        LOSS, torch.tensor([[torch.nan, 1.0], [0.0, 1.0]]), torch.tensor([0, 1])
    )
    assert measured(ExpectedCalibrationError(), [item]) is None
    assert math.isnan(measured(BrierScore(), [item]))  # as the loss is: a mean of what is no number

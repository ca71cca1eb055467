"""Agreement of predictions and targets, against scikit-learn and by hand."""

import math

import pytest
import torch
from fast.metrics.classification_items import (
    LOSS, binary, classes, close, laws, measured, shuffled, unwarned,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from andiron import errors
from andiron.outputs import (
    BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
)  # fmt: skip
from andiron_lab.scores import BalancedAccuracy, CohenKappa, MatthewsCorrelation

sklearn = pytest.importorskip("sklearn.metrics")

AGREEMENTS = {
    "balanced_accuracy": (BalancedAccuracy, sklearn.balanced_accuracy_score),
    "matthews_correlation": (MatthewsCorrelation, sklearn.matthews_corrcoef),
    "cohen_kappa": (CohenKappa, sklearn.cohen_kappa_score),
}
agreements = pytest.mark.parametrize("build, reference", AGREEMENTS.values(), ids=AGREEMENTS)


def same(value, expected):
    return value == close(expected, rel=1e-12, abs=1e-12)  # float64, in another order than numpy's


@agreements
@laws
@given(drawn=st.one_of(classes(), binary()), data=st.data())
def test_agreement_is_scikit_learns_and_none_where_it_is_undefined(build, reference, drawn, data):
    value = shuffled(build(), drawn.items, data)
    if not len(drawn.true):
        assert value is None
        return
    with unwarned():
        expected = reference(drawn.true, drawn.predicted)
    assert value is None if math.isnan(expected) else same(value, expected)


def test_agreement_by_hand():
    logits = torch.eye(3)[[0, 1, 1, 0, 1, 0]]
    item = ClassificationOutput(LOSS, logits, torch.tensor([0, 1, 0, 1, 1, 2]))
    expected = {
        BalancedAccuracy: 7 / 18,  # (1/2 + 2/3 + 0) / 3
        CohenKappa: 3 / 21,  # c s = 18, p t = 3 2 + 3 3 + 0 1 = 15, s^2 = 36
        MatthewsCorrelation: 3 / math.sqrt((36 - 18) * (36 - 14)),
    }
    for score, value in expected.items():
        assert same(measured(score(), [item]), value)


def test_a_threshold_moves_the_answers_of_yes_or_no():
    probability = torch.tensor([0.9, 0.4, 0.4, 0.1])
    item = BinaryClassificationOutput(LOSS, probability.logit(), torch.tensor([1, 1, 0, 0]))
    assert measured(BalancedAccuracy(), [item]) == 3 / 4
    assert measured(BalancedAccuracy(threshold=0.3), [item]) == 3 / 4
    assert measured(BalancedAccuracy(threshold=0.95), [item]) == 1 / 2


@pytest.mark.parametrize("build", [build for build, _ in AGREEMENTS.values()])
def test_labels_are_refused(build):
    item = MultiLabelClassificationOutput(LOSS, torch.zeros(2, 3), torch.zeros(2, 3).long())
    with pytest.raises(errors.MismatchError, match="one of several classes, or yes or no, not"):
        build()(item)

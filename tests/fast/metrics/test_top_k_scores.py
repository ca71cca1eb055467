"""Precision, recall, F-beta and the table of classes with several classes predicted a target."""

import pytest
import torch
from classification_items import (
    averages, classes, close, laws, measured, padded, shuffled, unwarned,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from andiron.metrics import FBeta, PerClass, Precision, Recall, Specificity, TopKAccuracy
from andiron.outputs import ClassificationOutput

sklearn = pytest.importorskip("sklearn.metrics")
SCORES = {Precision: sklearn.precision_score, Recall: sklearn.recall_score, FBeta: sklearn.f1_score}
SMALL = ClassificationOutput(
    torch.tensor(0.0),
    torch.tensor([[3.0, 2, 1], [3, 2, 1], [1, 2, 3], [2, 3, 1]]),
    torch.tensor([1, 2, 2, 0]),
)


def indicators(drawn, k):
    """The targets that count as rows of 0 and 1, and the k likeliest classes of each."""
    number = drawn.logits.shape[1]
    likeliest = drawn.kept.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    true = one_hot(torch.from_numpy(drawn.true), number)
    return true.numpy(), one_hot(likeliest, number).sum(1).numpy()


@pytest.mark.parametrize("build, reference", SCORES.items())
@laws
@given(drawn=classes(), average=st.sampled_from(averages), k=st.integers(2, 5), data=st.data())
def test_a_score_is_scikit_learns_of_k_predicted_classes(build, reference, drawn, average, k, data):
    k = min(k, drawn.logits.shape[1])
    metric = build(top_k=k, average=average)
    value = shuffled(metric, drawn.items, data)
    assert value == measured(metric, [padded(item) for item in drawn.items])
    if not len(drawn.true):
        assert value is None
        return
    true, predicted = indicators(drawn, k)
    present = (true + predicted).any(0)
    with unwarned():
        expected = reference(
            true[:, present],
            predicted[:, present],
            average=None if average == "none" else average,
            zero_division=0,
        )
    if average in (None, "none"):
        names = [str(name) for name in present.nonzero()[0]]
        expected = dict(zip(names, expected, strict=True))
    assert value == close(expected, rel=1e-12, abs=1e-12)  # another order of summation


@laws
@given(drawn=classes(sequences=False), k=st.integers(2, 5))
def test_recall_is_torchmetrics_and_over_all_classes_the_top_k_accuracy(drawn, k):
    torchmetrics = pytest.importorskip("torchmetrics.classification")
    number = drawn.logits.shape[1]
    k = min(k, number)
    if len(drawn.true):
        theirs = torchmetrics.MulticlassRecall(number, top_k=k, average="none")
        # without ties, whose order torch.topk leaves open
        logits = drawn.kept + torch.arange(number, 0, -1) * 1e-9
        expected = theirs(logits, torch.from_numpy(drawn.true)).tolist()
        result = measured(Recall(top_k=k, average="none"), drawn.items)
        assert result == {name: pytest.approx(expected[int(name)]) for name in result}
    overall = measured(Recall(top_k=k, average="micro"), drawn.items)
    assert overall == measured(TopKAccuracy(k=k), drawn.items)


def test_a_small_case_by_hand():
    """Predicted: {0, 1}, {0, 1}, {1, 2}, {0, 1}; true: 1, 2, 2, 0."""
    assert measured(Precision(top_k=2, average="micro"), [SMALL]) == 3 / 8
    assert measured(Precision(top_k=2, average="none"), [SMALL]) == {"0": 1 / 3, "1": 1 / 4, "2": 1}
    assert measured(FBeta(top_k=2, average="none"), [SMALL]) == {"0": 0.5, "1": 0.4, "2": 2 / 3}
    assert measured(Specificity(top_k=2, average="none"), [SMALL]) == {"0": 1 / 3, "1": 0, "2": 1}
    assert "| 2 | 1.0000 | 0.5000 | 0.6667 | 2 |" in measured(PerClass(top_k=2), [SMALL])

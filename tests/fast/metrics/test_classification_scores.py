"""Precision, recall, F-beta and specificity, against scikit-learn and by hand."""

import numpy
import pytest
import torch
from classification_items import (
    LOSS, averages, binary, classes, close, labels, laws, measured, padded, shuffled, unwarned,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from andiron.metrics.classification.decision_scores import FBeta, Precision, Recall, Specificity
from andiron.outputs import (
    IGNORED, BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
)  # fmt: skip

sklearn = pytest.importorskip("sklearn.metrics")

BETAS = (0.5, 1.0, 2)
SCORES = {
    "precision": (lambda **options: Precision(name="score", **options), sklearn.precision_score),
    "recall": (lambda **options: Recall(name="score", **options), sklearn.recall_score),
    **{
        f"f{beta}": (
            lambda beta=beta, **options: FBeta(beta=beta, name="score", **options),
            lambda *sides, beta=beta, **options: sklearn.fbeta_score(*sides, beta=beta, **options),
        )
        for beta in BETAS
    },
}
scores = pytest.mark.parametrize("build, reference", SCORES.values(), ids=SCORES)
every = pytest.mark.parametrize("metric", [Precision(), Recall(), FBeta(), Specificity()])
rounded = {"rel": 1e-12, "abs": 1e-12}  # float64 means, summed in another order than numpy's


def same(value, expected):
    return value == close(expected, **rounded)


def by_class(values, present):
    return {str(name): value for name, value in zip(present, values, strict=True)}


@scores
@laws
@given(drawn=classes(), average=st.sampled_from(averages), data=st.data())
def test_a_score_of_classes_is_scikit_learns_over_the_classes_present(
    build, reference, drawn, average, data
):
    value = shuffled(build(average=average), drawn.items, data)
    if not len(drawn.true):
        assert value is None
        return
    expected = reference(
        drawn.true, drawn.predicted, average=None if average == "none" else average, zero_division=0
    )
    if average in (None, "none"):
        expected = by_class(expected, sorted({*drawn.true.tolist(), *drawn.predicted.tolist()}))
    assert same(value, expected)


@scores
@laws
@given(drawn=binary(), average=st.sampled_from(averages), data=st.data())
def test_a_score_of_yes_or_no_is_the_positive_classs_whatever_the_average(
    build, reference, drawn, average, data
):
    value = shuffled(build(average=average), drawn.items, data)
    if not len(drawn.true):
        assert value is None
    else:
        assert value == reference(drawn.true, drawn.predicted, average="binary", zero_division=0)


@scores
@laws
@given(drawn=labels(), average=st.sampled_from(averages), data=st.data())
def test_a_score_of_labels_is_scikit_learns_over_all_labels(build, reference, drawn, average, data):
    answers, decided = drawn.targets.numpy(), (drawn.logits > 0).long().numpy()
    expected = reference(
        answers, decided, average=None if average == "none" else average, zero_division=0
    )
    if average in (None, "none"):
        expected = by_class(expected, range(len(expected)))
    assert same(shuffled(build(average=average), drawn.items, data), expected)


@scores
@laws
@given(drawn=labels(ignored=True), data=st.data())
def test_labels_that_do_not_count_are_left_out_label_by_label(build, reference, drawn, data):
    expected = {}
    for label, (answers, logits) in enumerate(zip(drawn.targets.T, drawn.logits.T, strict=True)):
        counts = answers >= 0
        if counts.any():
            sides = answers[counts].numpy(), (logits[counts] > 0).long().numpy()
            expected[str(label)] = reference(*sides, average="binary", zero_division=0)
    assert same(shuffled(build(average="none"), drawn.items, data), expected or None)
    macro = sum(expected.values()) / len(expected) if expected else None
    assert same(shuffled(build(average="macro"), drawn.items, data), macro)


@laws
@given(drawn=classes(), average=st.sampled_from(averages), data=st.data())
def test_specificity_is_the_recall_of_the_rest(drawn, average, data):
    value = shuffled(Specificity(average=average), drawn.items, data)
    if not len(drawn.true):
        assert value is None
        return
    with unwarned():
        tables = sklearn.multilabel_confusion_matrix(drawn.true, drawn.predicted)
    right, negatives = tables[:, 0, 0], tables[:, 0].sum(axis=1)
    ratios = right / numpy.where(negatives == 0, 1, negatives)
    expected = {
        "micro": right.sum() / max(negatives.sum(), 1), "macro": ratios.mean(),
        "weighted": numpy.average(ratios, weights=tables[:, 1].sum(axis=1)),
    }  # fmt: skip
    present = sorted({*drawn.true.tolist(), *drawn.predicted.tolist()})
    assert same(value, expected[average] if average in expected else by_class(ratios, present))


@laws
@given(drawn=binary(), data=st.data())
def test_specificity_of_yes_or_no_is_the_recall_of_no(drawn, data):
    value = shuffled(Specificity(), drawn.items, data)
    if not len(drawn.true):
        assert value is None
    else:
        assert value == sklearn.recall_score(
            drawn.true, drawn.predicted, pos_label=0, zero_division=0
        )


@every
@laws
@given(drawn=st.one_of(classes(), binary()), data=st.data())
def test_order_and_windows_change_no_bit_and_padding_counts_nowhere(metric, drawn, data):
    at_once = measured(metric, drawn.items)
    assert shuffled(metric, drawn.items, data) == at_once
    assert shuffled(metric, [padded(item) for item in drawn.items], data) == at_once


# true 0 0 1 1 1 2, predicted 0 1 1 1 0 0; class 3 never occurs
SMALL = ClassificationOutput(
    LOSS, torch.eye(4)[torch.tensor([0, 1, 1, 1, 0, 0])], torch.tensor([0, 0, 1, 1, 1, 2])
)
NAMES = ["ant", "bee", "cat", "dog"]


@pytest.mark.parametrize(
    "metric, expected",
    [
        (Precision(average="none", class_names=NAMES), {"ant": 1 / 3, "bee": 2 / 3, "cat": 0.0}),
        (Recall(average=None, class_names=NAMES), {"ant": 1 / 2, "bee": 2 / 3, "cat": 0.0}),
        (Recall(average="weighted"), 3 / 6),  # the weights are recall's denominators
    ],
)
def test_a_small_case_by_hand(metric, expected):
    assert same(measured(metric, [SMALL]), expected)


def test_yes_or_no_by_hand_at_two_thresholds():
    logits, targets = torch.tensor([2.0, 0.5, -0.5, -2.0, 1.0]), torch.tensor([1, 1, 1, 0, 0])
    item = BinaryClassificationOutput(LOSS, logits, targets)
    assert measured(Precision(), [item]) == 2 / 3
    # sigmoid(1.0) is 0.73, sigmoid(0.5) is 0.62
    assert measured(Precision(threshold=0.7), [item]) == 1 / 2
    assert measured(Recall(threshold=0.7), [item]) == 1 / 3
    assert measured(Recall(threshold=0.3), [item]) == 3 / 3  # sigmoid(-0.5) is 0.38


def test_in_ties_the_threshold_means_no_and_the_first_logit_wins():
    item = BinaryClassificationOutput(LOSS, torch.tensor([0.0, 0.0, 0.0]), torch.tensor([1, 0, 0]))
    assert measured(Recall(), [item]) == 0.0
    assert measured(Specificity(), [item]) == 1.0


def test_without_any_support_the_weights_are_equal():
    logits = torch.tensor([[1.0, -1.0], [-1.0, -1.0], [-1.0, -1.0], [-1.0, -1.0]])
    item = MultiLabelClassificationOutput(LOSS, logits, torch.zeros(4, 2, dtype=torch.long))
    assert measured(Specificity(average="weighted"), [item]) == (3 / 4 + 4 / 4) / 2
    assert measured(Precision(average="weighted"), [item]) == 0.0


def test_only_padding_has_no_score():
    item = ClassificationOutput(
        LOSS, torch.zeros(3, 2), torch.full((3,), IGNORED), has_ignored=True
    )
    for metric in (Precision(average="micro"), Recall(average="none"), FBeta()):
        assert measured(metric, [item]) is None


def test_many_classes_take_memory_for_each_once():
    item = ClassificationOutput(LOSS, torch.zeros(3, 5000), torch.tensor([1, 0, 4999]))
    (part,) = FBeta()(item)
    assert part.shape == (3, 5000)

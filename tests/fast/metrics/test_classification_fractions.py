"""Fractions that are right: among the k largest logits, label by label, all labels at once."""

import numpy
import pytest
import torch
from classification_items import LOSS, binary, classes, labels, laws, measured, shuffled
from hypothesis import given
from hypothesis import strategies as st

from andiron.metrics import Accuracy, ExactMatch, HammingAccuracy, TopKAccuracy
from andiron.outputs import IGNORED, ClassificationOutput, MultiLabelClassificationOutput

sklearn = pytest.importorskip("sklearn.metrics")


@laws
@given(drawn=classes(), k=st.integers(1, 5), data=st.data())
def test_top_k_accuracy_is_scikit_learns_with_reversed_classes(drawn, k, data):
    number = drawn.logits.shape[1]
    value = shuffled(TopKAccuracy(k=k), drawn.items, data)
    if not len(drawn.true):
        assert value is None
    elif number == 2:  # scikit-learn takes one score a sample then, and decides by a threshold
        assert value == (1.0 if k > 1 else sklearn.accuracy_score(drawn.true, drawn.predicted))
    elif k >= number:  # scikit-learn warns that it is all of them
        assert value == 1.0
    else:  # of equal logits its last come first
        sides = number - 1 - drawn.true, drawn.kept.flip(1).numpy()
        assert value == sklearn.top_k_accuracy_score(*sides, k=k, labels=range(number))


def test_a_nan_logit_is_never_among_the_largest_by_itself():
    item = ClassificationOutput(LOSS, torch.full((3, 4), torch.nan), torch.tensor([0, 1, 3]))
    assert measured(TopKAccuracy(k=3), [item]) == 0.0


@laws
@given(drawn=st.one_of(labels(), labels(ignored=True), binary()), data=st.data())
def test_the_hamming_accuracy_is_scikit_learns_over_what_counts(drawn, data):
    accuracy = shuffled(HammingAccuracy(), drawn.items, data)
    if not len(drawn.true):
        assert accuracy is None
        return
    decided = (drawn.logits > 0).long()[drawn.targets != IGNORED].numpy()
    assert accuracy == sklearn.accuracy_score(drawn.true, decided)


@laws
@given(drawn=classes(), data=st.data())
def test_the_hamming_accuracy_of_classes_is_accuracy(drawn, data):
    assert shuffled(HammingAccuracy(), drawn.items, data) == measured(Accuracy(), drawn.items)


@laws
@given(drawn=labels(), data=st.data())
def test_an_exact_match_is_scikit_learns_accuracy_of_label_sets(drawn, data):
    answers, decided = drawn.targets.numpy(), (drawn.logits > 0).long().numpy()
    assert shuffled(ExactMatch(), drawn.items, data) == sklearn.accuracy_score(answers, decided)


@laws
@given(drawn=labels(ignored=True), data=st.data())
def test_a_label_that_does_not_count_cannot_spoil_a_match(drawn, data):
    matches = []
    for answers, logits in zip(drawn.targets.numpy(), drawn.logits.numpy(), strict=True):
        counts = answers != IGNORED
        if counts.any():
            matches.append(((logits > 0) == answers)[counts].all())
    assert shuffled(ExactMatch(), drawn.items, data) == (numpy.mean(matches) if matches else None)


def test_labels_by_hand_at_two_thresholds():
    logits = torch.tensor([[2.0, -1.0], [0.5, 1.0], [-2.0, -2.0]])
    item = MultiLabelClassificationOutput(LOSS, logits, torch.tensor([[1, 0], [0, 1], [0, 1]]))
    assert measured(HammingAccuracy(), [item]) == 4 / 6
    assert measured(ExactMatch(), [item]) == 1 / 3
    assert measured(HammingAccuracy(threshold=0.7), [item]) == 5 / 6  # sigmoid(0.5) is 0.62
    assert measured(ExactMatch(threshold=0.7), [item]) == 2 / 3

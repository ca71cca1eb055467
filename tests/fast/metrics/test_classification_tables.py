"""The pages about every class, beside scikit-learn's numbers and by hand."""

import pytest
import torch
from classification_items import (
    LOSS, binary, classes, labels, laws, measured, padded, shuffled, unwarned,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from andiron.metrics.classification.class_tables import ConfusionMatrix, PerClass
from andiron.outputs import BinaryClassificationOutput, ClassificationOutput

sklearn = pytest.importorskip("sklearn.metrics")


def cells(page):
    """The rows below the ruler, without their borders."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()[2:]]


@laws
@given(drawn=st.one_of(classes(), binary()), data=st.data())
def test_the_confusion_matrix_is_scikit_learns_row_for_row(drawn, data):
    page = shuffled(ConfusionMatrix(), drawn.items, data)
    number = drawn.logits.shape[1] if drawn.logits.ndim == 2 else 2
    expected = torch.zeros(number, number, dtype=torch.long).tolist()
    if len(drawn.true):
        with unwarned():
            expected = sklearn.confusion_matrix(
                drawn.true, drawn.predicted, labels=range(number)
            ).tolist()
    assert [[int(cell) for cell in line[1:]] for line in cells(page)] == expected
    assert page == measured(ConfusionMatrix(), [padded(item) for item in drawn.items])


@laws
@given(drawn=st.one_of(classes(), binary(), labels()), data=st.data())
def test_the_table_of_classes_is_scikit_learns(drawn, data):
    page = shuffled(PerClass(), drawn.items, data)
    number = drawn.logits.shape[1] if drawn.logits.ndim == 2 else 2
    if not len(drawn.true):
        assert cells(page) == [[str(index), "-", "-", "-", "0"] for index in range(number)]
        return
    sides = (drawn.true, drawn.predicted)
    if drawn.targets.ndim == 2:
        sides = (drawn.targets.numpy(), (drawn.logits > 0).long().numpy())
    columns = sklearn.precision_recall_fscore_support(*sides, labels=range(number), zero_division=0)
    for index, (result, expected) in enumerate(
        zip(cells(page), zip(*columns, strict=True), strict=True)
    ):
        is_absent = drawn.targets.ndim == 1 and index not in {
            *sides[0].tolist(), *sides[1].tolist(),
        }  # fmt: skip
        scores = ["-"] * 3 if is_absent else [f"{value:.4f}" for value in expected[:3]]
        assert result == [str(index), *scores, str(int(expected[3]))]


SMALL = ClassificationOutput(
    LOSS, torch.eye(3)[torch.tensor([0, 1, 1, 0])], torch.tensor([0, 0, 1, 1])
)


def test_a_confusion_matrix_by_hand():
    assert measured(
        ConfusionMatrix(class_names=["ant", "a|b", "cat"]), [SMALL, SMALL]
    ).splitlines() == [
        "| true \\ predicted | ant | a\\|b | cat |", "| --- | ---: | ---: | ---: |",
        "| ant | 2 | 2 | 0 |", "| a\\|b | 2 | 2 | 0 |", "| cat | 0 | 0 | 0 |",
    ]  # fmt: skip


def test_a_table_of_classes_by_hand():
    item = ClassificationOutput(
        LOSS, torch.eye(4)[torch.tensor([0, 1, 1, 1])], torch.tensor([0, 0, 1, 2])
    )
    assert measured(PerClass(class_names=["ant", "bee", "cat", "dog"]), [item]).splitlines() == [
        "| class | precision | recall | F1 | support |", "| --- | ---: | ---: | ---: | ---: |",
        "| ant | 1.0000 | 0.5000 | 0.6667 | 2 |", "| bee | 0.3333 | 1.0000 | 0.5000 | 1 |",
        "| cat | 0.0000 | 0.0000 | 0.0000 | 1 |", "| dog | - | - | - | 0 |",
    ]  # fmt: skip


def test_yes_or_no_has_two_classes_and_a_threshold():
    item = BinaryClassificationOutput(LOSS, torch.tensor([0.5, 2.0, -1.0]), torch.tensor([1, 1, 0]))
    names = ["well", "ill"]
    assert cells(measured(ConfusionMatrix(class_names=names), [item])) == [
        ["well", "1", "0"],
        ["ill", "0", "2"],
    ]
    assert cells(measured(ConfusionMatrix(class_names=names, threshold=0.7), [item])) == [
        ["well", "1", "0"],
        ["ill", "1", "1"],
    ]
    assert cells(measured(PerClass(class_names=names, threshold=0.7), [item])) == [
        ["well", "0.5000", "1.0000", "0.6667", "1"],
        ["ill", "1.0000", "0.5000", "0.6667", "2"],
    ]

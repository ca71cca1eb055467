"""AUROC and average precision, beside scikit-learn."""

import numpy
import pytest
import torch
from classification_items import (
    LOSS, averages, binary, classes, close, labels, laws, measured, padded, shuffled, unwarned,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from andiron.metrics.classification.ranking import AUROC, AveragePrecision
from andiron.outputs import (
    BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
)  # fmt: skip

sklearn = pytest.importorskip("sklearn.metrics")

AREAS = {
    "auroc": (AUROC, sklearn.roc_auc_score),
    "average_precision": (AveragePrecision, sklearn.average_precision_score),
}
areas = pytest.mark.parametrize("build, reference", AREAS.values(), ids=AREAS)
named = st.sampled_from(averages)
rounded = {"rel": 1e-12, "abs": 1e-12}  # sums of float64 in another order


def is_defined(build, truths):
    return truths.any() and (build is AveragePrecision or not truths.all())


def by_column(build, reference, columns, average):
    """The averages over the columns, each against the rest; undefined columns left out."""
    values, support = {}, []
    for name, (truths, scores) in columns.items():
        if is_defined(build, truths):
            values[str(name)] = reference(truths, scores)
            support.append(truths.sum())
    if not values or average in (None, "none"):
        return values or None
    return numpy.average([*values.values()], weights=support if average == "weighted" else None)


@areas
@laws
@given(drawn=binary(), average=named, data=st.data())
def test_an_area_of_yes_or_no_is_scikit_learns_and_none_where_undefined(
    build, reference, drawn, average, data
):
    value = shuffled(build(average=average), drawn.items, data)
    if is_defined(build, drawn.true):
        assert value == pytest.approx(reference(drawn.true, drawn.kept.numpy()), **rounded)
    else:
        assert value is None


@areas
@laws
@given(drawn=classes(), average=named, data=st.data())
def test_an_area_of_classes_is_the_average_of_each_against_the_rest(
    build, reference, drawn, average, data
):
    value = shuffled(build(average=average), drawn.items, data)
    truths, scores = (
        drawn.true[:, None] == numpy.arange(drawn.logits.shape[1]), drawn.kept.softmax(-1).numpy(),
    )  # fmt: skip
    if average == "micro":
        expected = reference(truths.ravel(), scores.ravel()) if len(truths) else None
    else:
        expected = by_column(
            build, reference, dict(enumerate(zip(truths.T, scores.T, strict=True))), average
        )
    assert value == close(expected, **rounded)


@laws
@given(drawn=classes(), average=st.sampled_from(["micro", "macro", "weighted"]), data=st.data())
def test_auroc_of_classes_is_scikit_learns_one_against_the_rest(drawn, average, data):
    number = drawn.logits.shape[1]
    if number == 2 or len({*drawn.true.tolist()}) < number:  # scikit-learn refuses both
        return
    expected = sklearn.roc_auc_score(
        drawn.true, drawn.kept.softmax(-1).numpy(), multi_class="ovr", average=average
    )
    assert shuffled(AUROC(average=average), drawn.items, data) == close(expected, **rounded)


@areas
@laws
@given(drawn=labels(), average=named, data=st.data())
def test_an_area_of_labels_is_scikit_learns_where_every_label_has_one(
    build, reference, drawn, average, data
):
    value = shuffled(build(average=average), drawn.items, data)
    truths, scores = drawn.targets.numpy(), drawn.logits.numpy()
    if all(is_defined(build, column) for column in truths.T):
        with unwarned():
            expected = reference(truths, scores, average=None if average == "none" else average)
        if average in (None, "none"):
            expected = {str(label): area for label, area in enumerate(expected)}
    elif average == "micro":
        expected = reference(truths.ravel(), scores.ravel()) if is_defined(build, truths) else None
    else:
        expected = by_column(
            build, reference, dict(enumerate(zip(truths.T, scores.T, strict=True))), average
        )
    assert value == close(expected, **rounded)


@areas
@laws
@given(
    drawn=labels(ignored=True),
    average=st.sampled_from(["macro", "weighted", "none"]),
    data=st.data(),
)
def test_labels_that_do_not_count_are_left_out_label_by_label(
    build, reference, drawn, average, data
):
    columns = {}
    for label, (answers, scores) in enumerate(zip(drawn.targets.T, drawn.logits.T, strict=True)):
        columns[label] = (answers[answers >= 0].numpy(), scores[answers >= 0].numpy())
    expected = by_column(build, reference, columns, average)
    assert shuffled(build(average=average), drawn.items, data) == close(expected, **rounded)


@areas
@laws
@given(drawn=st.one_of(classes(), binary(), labels(ignored=True)), data=st.data())
def test_order_and_windows_change_no_bit_and_padding_counts_nowhere(build, reference, drawn, data):
    at_once = measured(build(), drawn.items)
    assert shuffled(build(), drawn.items, data) == at_once
    assert shuffled(build(), [padded(item) for item in drawn.items], data) == at_once


@areas
def test_a_batch_is_kept_without_a_copy(build, reference):
    item = BinaryClassificationOutput(LOSS, torch.tensor([3.0, 1.0]), torch.tensor([1, 0]))
    kept = build()(item)
    assert [*map(torch.Tensor.data_ptr, kept)] == [item.output.data_ptr(), item.targets.data_ptr()]


def test_probabilities_that_are_equal_in_float32_are_distinguished():
    item = BinaryClassificationOutput(
        LOSS, torch.tensor([40.0, 41.0, 42.0]), torch.tensor([0, 0, 1])
    )
    assert measured(AUROC(), [item]) == measured(AveragePrecision(), [item]) == 1.0


def test_classes_have_their_names():
    item = ClassificationOutput(LOSS, torch.eye(3)[[0, 1, 1, 0]], torch.tensor([0, 0, 1, 1]))
    names = ["ant", "bee", "cat"]
    assert measured(AUROC(average="none", class_names=names), [item]) == {"ant": 0.5, "bee": 0.5}


@areas
def test_a_nan_logit_leaves_no_value(build, reference):
    for output in (
        torch.tensor([1.0, torch.nan, 0.0]),
        torch.tensor([[1.0, 0.0], [torch.nan, 1.0], [0.0, 1.0]]),
    ):
        kind = BinaryClassificationOutput if output.ndim == 1 else ClassificationOutput
        assert measured(build(), [kind(LOSS, output, torch.tensor([0, 1, 0]))]) is None


@areas
def test_infinite_scores_of_labels_are_in_order_too(build, reference):
    output = torch.tensor([[torch.inf, 1.0], [-torch.inf, 2.0], [0.0, 3.0]])
    item = MultiLabelClassificationOutput(LOSS, output, torch.tensor([[1, 0], [0, 1], [0, 1]]))
    assert measured(build(), [item]) == 1.0


@areas
def test_a_long_epoch_is_exact(build, reference):
    stream = torch.Generator().manual_seed(3)
    logits, targets = (
        torch.randn(200_001, generator=stream),
        torch.randint(2, (200_001,), generator=stream),
    )
    items = [
        BinaryClassificationOutput(LOSS, *part)
        for part in zip(logits.split(70_000), targets.split(70_000), strict=True)
    ]
    assert measured(build(), items) == pytest.approx(
        reference(targets.numpy(), logits.numpy()), **rounded
    )

"""Every metric: its name, direction and kind, no reading from the device, no count of padding."""

import pytest
import torch
from classification_items import (
    LOSS, binary, classes, labels, laws, measured, on_meta, padded,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from andiron import metrics
from andiron.outputs import (
    BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
    RegressionOutput, SequenceOutput,
)  # fmt: skip
from andiron.protocols import Metric, Statistic

CLASSES = torch.tensor([0, 1, 2, 1, 0])
ITEMS = {
    "classes": lambda **more: ClassificationOutput(LOSS, torch.zeros(5, 3), CLASSES, **more),
    "answers": lambda **more: BinaryClassificationOutput(
        LOSS, torch.zeros(5), CLASSES.clamp(max=1), **more),
    "labels": lambda **more: MultiLabelClassificationOutput(
        LOSS, torch.zeros(3, 2), torch.ones(3, 2).long(), **more),
    "values": lambda **more: RegressionOutput(LOSS, torch.zeros(5, 2), torch.ones(5, 2), **more),
    "tokens": lambda **more: SequenceOutput(
        LOSS, torch.zeros(3, 4, 5), torch.ones(3, 4).long(), num_bytes=24, **more),
}  # fmt: skip
MEANS = {  # name: metric, whether more is better, items that it measures
    "loss": (metrics.Loss(), False, "classes answers labels values"),
    "accuracy": (metrics.Accuracy(), True, "classes"),
    "hamming_accuracy": (metrics.HammingAccuracy(), True, "labels"),
    "exact_match": (metrics.ExactMatch(), True, "labels"),
    "top_2_accuracy": (metrics.TopKAccuracy(k=2), True, "classes"),
    "mine": (metrics.TopKAccuracy(k=3, name="mine"), True, "classes"),
    "bits_per_byte": (metrics.BitsPerByte(), False, "tokens"),
}
SUMS = {
    "precision": (metrics.Precision(), True, "classes answers"),
    "top_2": (metrics.Precision(top_k=2, name="top_2"), True, "classes"),
    "recall": (metrics.Recall(), True, "classes answers"),
    "f1": (metrics.FBeta(), True, "classes answers"),
    "f2": (metrics.FBeta(beta=2), True, "classes answers"),
    "f0.5": (metrics.FBeta(beta=0.5), True, "classes answers"),
    "specificity": (metrics.Specificity(), True, "classes answers"),
    "confusion_matrix": (metrics.ConfusionMatrix(), True, "classes"),
    "per_class": (metrics.PerClass(), True, "classes"),
    "perplexity": (metrics.Perplexity(), False, "tokens"),
    "mae": (metrics.MeanAbsoluteError(), False, "values"),
    "mse": (metrics.MeanSquaredError(), False, "values"),
    "rmse": (metrics.RootMeanSquaredError(), False, "values"),
}
GATHERED = {
    "r2": (metrics.R2(), True, "values"),
    "explained_variance": (metrics.ExplainedVariance(), True, "values"),
    "auroc": (metrics.AUROC(), True, "classes answers"),
    "average_precision": (metrics.AveragePrecision(), True, "classes answers"),
}
ALL = MEANS | SUMS | GATHERED


def test_every_shipped_metric_of_one_value_is_here():
    others = {"History", "Tally", "Mean"}
    assert {type(metric).__name__ for metric, *_ in ALL.values()} == {*metrics.__all__} - others


@pytest.mark.parametrize("name", ALL)
def test_it_has_its_natural_name_direction_and_kind(name):
    metric, more_is_better, _ = ALL[name]
    assert (metric.name, metric.higher_is_better) == (name, more_is_better)
    assert isinstance(metric, Metric) and isinstance(metric, Statistic) == (name not in MEANS)
    assert getattr(metric, "gathers", False) == (name in GATHERED)


@pytest.mark.parametrize("has_ignored", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_a_batch_is_counted_without_reading_or_shapes_that_hang_on_values(
    name, has_ignored, host_reads
):
    metric, _, kinds = ALL[name]
    for item in [ITEMS[kind](has_ignored=has_ignored) for kind in kinds.split()]:
        with host_reads() as reads:
            part = metric(item)[0]
        assert reads.number == 0
        assert part.shape == metric(on_meta(item))[0].shape


@pytest.mark.parametrize("name", ["hamming_accuracy", "exact_match", "top_2_accuracy"])
@laws
@given(data=st.data())
def test_padding_counts_nowhere(name, data):
    metric, _, kinds = ALL[name]
    drawn = {"classes": classes(), "answers": binary(), "labels": labels(ignored=True)}
    items = data.draw(st.one_of(drawn[kind] for kind in kinds.split())).items
    expected = measured(metric, items)
    assert measured(metric, [padded(item) for item in items]) == expected

"""A logit of NaN is a wrong answer in every metric of decisions."""

import pytest
import torch

from andiron import metrics
from andiron.metrics import Tally
from andiron.outputs import (
    BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
    SequenceOutput,
)  # fmt: skip
from andiron.tasks import BinaryClassifier, Classifier, MultiLabelClassifier
from andiron.wings.trained.predictions import of_batch

LOSS = torch.tensor(0.0)
OF_CLASSES = [
    metrics.Accuracy(), metrics.TopKAccuracy(k=1), metrics.TopKAccuracy(k=2),
    metrics.HammingAccuracy(), metrics.Precision(), metrics.Precision(top_k=2, name="p2"),
    metrics.Recall(), metrics.FBeta(), metrics.FBeta(average="micro", name="micro"),
]  # fmt: skip
OF_ANSWERS = [
    metrics.HammingAccuracy(), metrics.Precision(), metrics.Recall(), metrics.FBeta(),
    metrics.Specificity(),
]  # fmt: skip
NAN = float("nan")


def values(item, measured):
    tally = Tally(measured)
    tally.add(item)
    return tally.close_epoch()


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("target", [0, 1])
def test_a_network_that_gives_only_nan_has_no_right_answer(classes, target):
    targets = torch.full((5,), target)
    item = ClassificationOutput(LOSS, torch.full((5, classes), NAN), targets)
    measured = [value for value in OF_CLASSES if getattr(value, "top_k", 1) <= classes]
    result = values(item, measured)
    assert {*result.values()} == {0.0} and len(result) == len(measured)
    tokens = SequenceOutput(LOSS, torch.full((2, 5, classes), NAN), targets.repeat(2, 1))
    assert values(tokens, [metrics.Accuracy()]) == {"accuracy": 0.0}
    (matrix,) = metrics.ConfusionMatrix()(item)
    assert not matrix.any()


@pytest.mark.parametrize("row", [[NAN, 3.0, 0.0], [3.0, NAN, 0.0], [0.0, 3.0, NAN]])
def test_a_row_with_one_nan_is_wrong_and_others_count_as_without_it(row):
    logits = torch.tensor([[0.0, 3.0, 1.0], row, [2.0, 0.0, 1.0]])
    item = ClassificationOutput(LOSS, logits, torch.tensor([1, 1, 0]))
    measured = [metrics.Accuracy(), metrics.Precision(average="none")]
    assert values(item, measured) == {
        "accuracy": pytest.approx(2 / 3), "precision/0": 1.0, "precision/1": 1.0,
    }  # fmt: skip
    (matrix,) = metrics.ConfusionMatrix()(item)
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("target", [0, 1])
def test_yes_or_no_of_nan_is_wrong_whatever_the_target_is(target):
    for kind, shape in [
        (BinaryClassificationOutput, (4,)), (MultiLabelClassificationOutput, (4, 3)),
    ]:  # fmt: skip
        item = kind(LOSS, torch.full(shape, NAN), torch.full(shape, target))
        assert {*values(item, OF_ANSWERS).values()} == {0.0}
    assert values(item, [metrics.ExactMatch()]) == {"exact_match": 0.0}


def test_a_prediction_from_nan_has_no_label():
    network = torch.nn.Identity()
    for task, logits in [
        (Classifier(network), torch.tensor([[0.0, 1.0], [NAN, 1.0]])),
        (BinaryClassifier(network), torch.tensor([1.0, NAN])),
    ]:
        good, bad = of_batch(task, logits, {"class_names": ["cat", "dog"]}, ["a", "b"])
        assert (good.label, bad.label, bad.probability) == ("dog", None, None)
    (bad,) = of_batch(MultiLabelClassifier(network), torch.tensor([[NAN, 1.0]]), {}, ["a"])
    assert bad.labels == ("1",)

"""Scores by class and the worst samples of a pass."""

import math

import torch

from andiron.outputs import (
    BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
    RegressionOutput,
)  # fmt: skip
from andiron.tasks.forward import LossOutput
from andiron.wings.trained.evaluating import Details

LOSS = torch.tensor(0.0)


def read(item, count=2, names=("a", "b")):
    details = Details()
    details.add(item)
    return details.scores(names), details.worst(count)


def test_scores_and_losses_of_classes():
    logits = torch.tensor([[0.0, 0.0], [5.0, 0.0], [0.0, 1.0]])
    targets = torch.tensor([0, 1, -100])
    classes, worst = read(ClassificationOutput(LOSS, logits, targets, has_ignored=True))

    assert [(class_name.name, class_name.recall, class_name.support) for class_name in classes] == [
        ("a", 1.0, 1), ("b", 0.0, 1),
    ]  # fmt: skip
    assert [index for index, _ in worst] == [1, 0]
    assert worst[1][1] == torch.tensor(2.0).log().item() and worst[0][1] > 5
    assert len(read(ClassificationOutput(LOSS, logits, targets, has_ignored=True), 9)[1]) == 2


def test_losses_of_labels_and_values():
    logits, labels = torch.tensor([[0.0, 0.0], [9.0, -9.0]]), torch.tensor([[1, 0], [1, 0]])
    _, worst = read(MultiLabelClassificationOutput(LOSS, logits, labels), 1)
    assert worst[0][0] == 0 and math.isclose(worst[0][1], math.log(2), rel_tol=1e-6)  # float32
    values = RegressionOutput(LOSS, torch.tensor([[1.0], [5.0]]), torch.tensor([[1.0], [2.0]]))
    assert read(values) == ([], [(1, 9.0), (0, 0.0)])
    targets = torch.tensor([[1.0, -100.0], [-100.0, -100.0]])
    ignored = RegressionOutput(LOSS, torch.zeros(2, 2), targets, has_ignored=True)
    assert read(ignored) == ([], [(0, 1.0)])


def test_each_sample_has_a_score_and_nan_where_it_has_none():
    logits = torch.tensor([[0.0, 1.0], [5.0, 0.0], [0.0, 1.0], [math.nan, 1.0]])
    classes = ClassificationOutput(LOSS, logits, torch.tensor([1, 1, -100, 0]), has_ignored=True)
    labels = BinaryClassificationOutput(LOSS, torch.tensor([2.0, -1.0]), torch.tensor([1, 1]))
    values = RegressionOutput(LOSS, torch.tensor([[1.0], [5.0]]), torch.tensor([[1.0], [2.0]]))
    scores = []
    for item in (classes, labels, values):
        details = Details()
        details.add(item)
        scores.append(details.sample_scores())

    assert scores[0][:2] == [1, 0] and all(map(math.isnan, scores[0][2:]))
    assert scores[1:] == [[1, 0], [0, -9]]


def test_an_item_without_classes_or_losses_gives_none():
    assert read(LossOutput(LOSS, 3)) == ([], [])

"""Counts of a classifier's output."""

import pytest
import torch

from andiron.metrics import Accuracy, Loss, Tally
from andiron.outputs import IGNORED, ClassificationOutput


def output(*, loss, logits, targets):
    return ClassificationOutput(torch.tensor(loss), torch.tensor(logits), torch.tensor(targets))


def test_accuracy_counts_the_samples_whose_largest_logit_is_the_targets():
    item = output(
        loss=0.0, logits=[[0.1, 0.9, 0.2], [3.0, -1.0, 2.0], [-5.0, -4.0, -3.0]], targets=[1, 2, 2]
    )
    total, count = Accuracy()(item)
    assert (int(total.sum()), count) == (2, 3)


def test_accuracy_is_scikit_learns():
    reference = pytest.importorskip("sklearn.metrics").accuracy_score
    draw = torch.Generator().manual_seed(5)
    logits, targets = torch.randn(137, 4, generator=draw), torch.randint(4, (137,), generator=draw)
    total, count = Accuracy()(ClassificationOutput(torch.tensor(0.0), logits, targets))
    assert int(total.sum()) / count == reference(targets.numpy(), logits.argmax(dim=1).numpy())


def test_loss_is_weighted_by_the_size_of_its_batch():
    total, count = Loss()(output(loss=0.75, logits=[[0.0, 0.0]] * 5, targets=[0, 1, 0, 1, 1]))
    assert (float(total), count) == (3.75, 5)


def test_a_batch_whose_targets_are_all_ignored_leaves_the_mean_as_it_was():
    ignored = torch.full((2,), IGNORED)
    tally = Tally([Loss(), Accuracy()])
    tally.add(
        ClassificationOutput(
            torch.tensor(3.0), torch.eye(2), torch.tensor([0, IGNORED]), has_ignored=True
        )
    )
    tally.add(
        ClassificationOutput(torch.tensor(torch.nan), torch.eye(2), ignored, has_ignored=True)
    )

    assert tally.close_epoch() == {"loss": 3.0, "accuracy": 1.0}

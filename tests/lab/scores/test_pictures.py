"""Pictures of validation data: the worst errors and precision over recall."""

import pytest
import torch

from andiron import errors
from andiron.data import Batch
from andiron.metrics import Tally
from andiron.outputs import IGNORED, BinaryClassificationOutput, ClassificationOutput
from andiron_lab.batch_pictures import tiled
from andiron_lab.scores import PrecisionRecallCurve, WorstErrors

LOSS = torch.tensor(0.0)


def batch_of(logits, targets, shades, **more):
    """Images of one shade each, black at the top left, so that scaling shows no difference."""
    images = torch.tensor(shades).view(-1, 1, 1, 1).expand(-1, 3, 4, 5).clone()
    images[:, :, 0, 0] = 0.0
    item = ClassificationOutput(LOSS, torch.tensor(logits), torch.tensor(targets), **more)
    return item, Batch(images, item.targets)


def test_worst_errors_are_the_highest_losses_over_all_batches_and_windows():
    tally = Tally([WorstErrors(count=3, columns=2, class_names=["ant", "bee"])])
    tally.add(*batch_of([[4.0, 0.0], [0.0, 1.0], [0.0, 0.5]], [1, 0, 1], [1.0, 1.0, 1.0]))
    tally.close_window()
    tally.add(*batch_of([[0.0, 2.0]], [0], [1.0]))

    assert tally.close_epoch() == {}

    assert tally.texts["worst_errors/table"].splitlines()[2:] == [
        "| 1 | bee | ant | 4.0181 |", "| 2 | ant | bee | 2.1269 |", "| 3 | ant | bee | 1.3133 |",
    ]  # fmt: skip
    picture = tally.images["worst_errors/images"]
    assert (picture.shape, picture.dtype) == ((3, 8, 10), torch.uint8)
    assert picture[:, :4, :5].amax() == 255 and picture[:, 4:, 5:].amax() == 0  # none left


def test_ignored_samples_are_no_errors():
    tally = Tally([WorstErrors()])
    item, batch = batch_of([[4.0, 0.0], [1.0, 0.0]], [IGNORED, 0], [1.0, 1.0], has_ignored=True)
    tally.add(item, batch)
    tally.close_epoch()
    assert len(tally.texts["worst_errors/table"].splitlines()) == 3


def test_worst_errors_of_mappings_equal_the_same_of_pairs():
    item, batch = batch_of([[4.0, 0.0], [0.0, 1.0], [0.0, 0.5]], [1, 0, 1], [0.2, 0.5, 1.0])
    named = {"id": torch.arange(3), "image": batch.inputs, "label": batch.targets}
    expected, parts = WorstErrors(count=2)(item, batch), WorstErrors(count=2)(item, named)
    assert all(map(torch.equal, parts, expected))
    for wrong in ({"id": torch.arange(3)}, {**named, "other": batch.inputs}):
        with pytest.raises(errors.MismatchError, match=r"worst_errors: inputs are \[3.*be images"):
            WorstErrors().check_batch(wrong)
    with pytest.raises(errors.MismatchError, match="2 images have 3 targets; should be a class"):
        WorstErrors()(item, {"image": batch.inputs[:2]})


def test_tiles_are_in_reading_order_with_black_at_the_end():
    images = torch.arange(1, 4, dtype=torch.uint8).view(3, 1, 1, 1).expand(3, 1, 2, 2)
    assert tiled(images, 2)[0].tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 0, 0], [3, 3, 0, 0]]


def test_classes_without_positives_or_negatives_have_no_curve():
    tally = Tally([PrecisionRecallCurve(class_names=["ant", "bee", "cat"])])
    tally.add(ClassificationOutput(LOSS, torch.eye(3)[[0, 1, 0]], torch.tensor([0, 1, 1])))
    tally.close_epoch()
    assert [*tally.decisions] == ["pr_curve/ant", "pr_curve/bee"]
    tally.add(ClassificationOutput(LOSS, torch.eye(3)[:1], torch.tensor([0])))
    assert (tally.close_epoch(), tally.decisions) == ({}, {})


def test_decisions_are_those_at_each_threshold_of_the_probability():
    draw = torch.Generator().manual_seed(3)
    targets = torch.randint(3, (301,), generator=draw)
    logits = torch.randn(301, 3, generator=draw)
    logits[:7] = torch.tensor([1e3, 0.0, 0.0])  # probabilities 1 and 0: the outermost thresholds
    tally = Tally([PrecisionRecallCurve(thresholds=5)])
    for part in (slice(0, 100), slice(100, 301)):
        tally.add(ClassificationOutput(LOSS, logits[part], targets[part]))
    assert tally.close_epoch() == {}
    probabilities = logits.double().softmax(-1)
    assert [*tally.decisions] == ["pr_curve/0", "pr_curve/1", "pr_curve/2"]
    for number, curve in enumerate(tally.decisions.values()):
        true = targets == number
        for place, threshold in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
            yes = probabilities[:, number] >= threshold
            sides = true & yes, ~true & yes, ~true & ~yes, true & ~yes
            assert curve.counts[:, place].tolist() == [int(side.sum()) for side in sides]


def test_yes_or_no_answers_are_decided_by_the_sigmoid_of_their_logit():
    tally = Tally([PrecisionRecallCurve(thresholds=3)])
    logits = torch.tensor([-1.0, 0.0, 2.0, 9.0])
    tally.add(BinaryClassificationOutput(LOSS, logits, torch.tensor([0, 1, 0, IGNORED])))
    tally.close_epoch()
    assert tally.decisions["pr_curve/1"].counts.tolist() == [
        [1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0],
    ]  # fmt: skip

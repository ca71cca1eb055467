"""Values of torchmetrics, as numbers by name or place, or as pictures."""

import pytest
import torch
from foreign_metrics import LOSS, adapted, batches, numbers, stream, tallied

from andiron import errors
from andiron.metrics import R2, ExplainedVariance
from andiron.outputs import ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput
from andiron_lab.scores import Torchmetrics

torchmetrics = pytest.importorskip("torchmetrics")
classification = pytest.importorskip("torchmetrics.classification")
image = pytest.importorskip("torchmetrics.image")
fid = pytest.importorskip("torchmetrics.image.fid")

CLASSES = torch.randint(4, (37,), generator=stream())
LOGITS = torch.randn(37, 4, generator=stream())
LABELS = torch.randint(2, (37, 3), generator=stream())


@pytest.mark.parametrize(
    "metric",
    [
        classification.MulticlassConfusionMatrix(4),
        classification.MulticlassROC(4),
        classification.MulticlassROC(4, thresholds=5),
        classification.MulticlassPrecisionRecallCurve(4),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_a_curve_or_matrix_is_a_validation_picture_without_direction(metric):
    adapted_metric = Torchmetrics(metric, name="theirs")
    assert adapted_metric.validation_only
    tally = tallied(adapted_metric, batches(ClassificationOutput, LOGITS, CLASSES))
    assert tally.close_epoch() == {} and [*tally.images] == ["theirs"]
    picture = tally.images["theirs"]
    assert picture.dtype == torch.uint8 and picture.shape == (3, 480, 640)
    assert 0 < (picture < 128).float().mean() < 1  # something is drawn


def test_the_matrix_of_each_label_is_a_picture_by_its_number():
    metric = adapted(classification.MultilabelConfusionMatrix(3))
    items = batches(MultiLabelClassificationOutput, LOGITS[:, :3], LABELS)
    tally = tallied(metric, items)
    tally.close_epoch()
    assert [*tally.images] == ["theirs/0", "theirs/1", "theirs/2"]


def test_numbers_inside_numbers_are_named_by_their_places():
    scores = classification.MulticlassStatScores(4, average=None)
    values = tallied(adapted(scores), batches(ClassificationOutput, LOGITS, CLASSES)).close_epoch()
    scores.update(LOGITS.softmax(-1), CLASSES)
    assert [*values][:6] == [f"theirs/0/{place}" for place in range(5)] + ["theirs/1/0"]
    assert [*values.values()] == numbers(scores.compute())


def test_scores_of_targets_far_from_zero_keep_their_digits():
    targets = 5.4e6 + 1e3 * torch.randn(37, 1, generator=stream(1))  # northings of one town
    outputs = targets + 1e3 * torch.randn(37, 1, generator=stream(2))
    items = batches(RegressionOutput, outputs, targets)
    own = tallied(R2(), items).close_epoch() | tallied(ExplainedVariance(), items).close_epoch()
    expected = {
        "R2Score": own["r2"],
        "ExplainedVariance": own["explained_variance"],
        "RelativeSquaredError": 1 - own["r2"],
    }
    for name, value in expected.items():
        theirs = adapted(getattr(torchmetrics, name)())
        assert tallied(theirs, items).close_epoch()["theirs"] == pytest.approx(value)


def test_a_map_of_every_pixel_is_refused_when_it_is_read():
    images = torch.rand(37, 1, 16, 16, generator=stream())
    metric = adapted(image.StructuralSimilarityIndexMeasure(data_range=1.0, return_full_image=True))
    problem = r"^theirs: torchmetrics computes a tensor \[\d+, 1, 16, 16\]; only numbers can be"
    with pytest.raises(TypeError, match=problem):
        tallied(metric, batches(RegressionOutput, images, images)).close_epoch()


def test_a_value_that_torchmetrics_refuses_is_an_error_of_the_metric():
    class One(torch.nn.Module):
        num_features = 4

        def forward(self, images):
            return images.flatten(1)

    distance = adapted(
        fid.FrechetInceptionDistance(One(), normalize=True),
        inputs=lambda item: [(item.output, True), (item.output, False)],
    )
    one = RegressionOutput(LOSS, torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))
    with pytest.raises(errors.MismatchError, match="^theirs: FrechetInceptionDistance: More than"):
        tallied(distance, [one]).close_epoch()

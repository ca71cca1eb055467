"""States of every kind: sums, constants, extremes, lists and running means, resumed or not."""

import copy

import pytest
import torch
from foreign_metrics import LOSS, NUMBER, adapted, at_once, batches, restored, stream, tallied

from andiron import errors
from andiron.outputs import BinaryClassificationOutput, ClassificationOutput, RegressionOutput
from andiron_lab.scores import Torchmetrics

torchmetrics = pytest.importorskip("torchmetrics")
classification = pytest.importorskip("torchmetrics.classification")
clustering = pytest.importorskip("torchmetrics.clustering")
image = pytest.importorskip("torchmetrics.image")
regression = pytest.importorskip("torchmetrics.regression")
retrieval = pytest.importorskip("torchmetrics.retrieval")
segmentation = pytest.importorskip("torchmetrics.segmentation")
wrappers = pytest.importorskip("torchmetrics.wrappers")
KernelInceptionDistance = pytest.importorskip("torchmetrics.image.kid").KernelInceptionDistance


class Pair:
    """An item of the user's own: whatever it has as output and targets is given as it is."""

    weight = None

    def __init__(self, loss, output, targets):
        self.loss, self.output, self.targets = loss, output, targets


RANDOM = stream()
CLASSES = torch.randint(4, (NUMBER,), generator=RANDOM)
LOGITS = torch.randn(NUMBER, 4, generator=RANDOM) + torch.nn.functional.one_hot(CLASSES, 4)
ANSWERS = torch.randint(2, (NUMBER,), generator=RANDOM)
ANSWER_LOGITS = torch.randn(NUMBER, generator=RANDOM) + ANSWERS
VALUES = torch.rand(NUMBER, 2, generator=RANDOM) + 0.1
PREDICTED = VALUES + 0.1 * torch.rand(NUMBER, 2, generator=RANDOM)
PICTURES = torch.rand(NUMBER, 1, 20, 20, generator=RANDOM)
BLURRED = (PICTURES + 0.1 * torch.randn(PICTURES.shape, generator=RANDOM)).clamp(0, 1)
MASKS = torch.randint(3, (NUMBER, 8, 8), generator=RANDOM)
GUESSED = torch.where(torch.rand(MASKS.shape, generator=RANDOM) < 0.2, 0, MASKS)
GIVEN = {  # the kind of item, its output and targets, and what torchmetrics gets of them
    "classes": (ClassificationOutput, LOGITS, CLASSES, (LOGITS.softmax(-1), CLASSES)),
    "answers": (BinaryClassificationOutput, ANSWER_LOGITS, ANSWERS,
                (ANSWER_LOGITS.sigmoid(), ANSWERS)),
    "value": (RegressionOutput, PREDICTED[:, :1], VALUES[:, :1], (PREDICTED[:, 0], VALUES[:, 0])),
    "values": (RegressionOutput, PREDICTED, VALUES, (PREDICTED, VALUES)),
    "images": (RegressionOutput, BLURRED, PICTURES, (BLURRED, PICTURES)),
    "masks": (Pair, GUESSED, MASKS, (GUESSED, MASKS)),
}  # fmt: skip
PAIRS = [
    ("images", lambda: image.PeakSignalNoiseRatio(data_range=1.0)),
    ("images", lambda: image.PeakSignalNoiseRatio(data_range=(0.0, 1.0))),
    ("images", lambda: image.PeakSignalNoiseRatio(data_range=1.0, dim=(1, 2, 3))),
    ("images", lambda: image.StructuralSimilarityIndexMeasure(data_range=1.0)),
    ("images", lambda: image.StructuralSimilarityIndexMeasure(data_range=1.0, reduction="none")),
    ("masks", lambda: segmentation.DiceScore(num_classes=3, input_format="index")),
    ("value", lambda: regression.PearsonCorrCoef()),
    ("values", lambda: regression.PearsonCorrCoef(num_outputs=2)),
    ("values", lambda: regression.ConcordanceCorrCoef(num_outputs=2)),
    ("value", lambda: regression.NormalizedRootMeanSquaredError("range")),
    ("values", lambda: regression.CosineSimilarity()),
    ("answers", lambda: classification.BinaryRecallAtFixedPrecision(0.5)),
    ("answers", lambda: classification.BinarySensitivityAtSpecificity(0.5)),
    ("classes", lambda: clustering.HomogeneityScore()),
    ("classes",
     lambda: wrappers.ClasswiseWrapper(classification.MulticlassRecall(4, average=None))),
    ("values", lambda: wrappers.MultioutputWrapper(regression.R2Score(), 2)),
    ("value", lambda: regression.MeanSquaredError() + regression.MeanAbsoluteError()),
]  # fmt: skip
pairs = pytest.mark.parametrize(
    "given, build", PAIRS, ids=[f"{given} {type(build()).__name__}" for given, build in PAIRS]
)


def given_to(adapted_metric, given):
    kind, output, targets, arguments = GIVEN[given]
    if isinstance(adapted_metric.metric, clustering.HomogeneityScore):
        arguments = output.argmax(-1), targets
    return batches(kind, output, targets), arguments


@pairs
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # of HomogeneityScore
def test_uneven_batches_resumed_before_the_end_equal_torchmetrics_at_once(given, build):
    metric = adapted(build())
    items, arguments = given_to(metric, given)
    tally = tallied(metric, items)
    resumed = restored(tally, adapted(build()))  # whose metric has never been updated
    values = tally.close_epoch()
    expected = at_once(build(), arguments)
    assert [*values.values()] == pytest.approx(expected, rel=1e-4)  # float32 there, float64 here
    assert resumed.close_epoch() == values


def test_extremes_and_everything_of_retrieval_are_merged():
    class Ranked(Pair):
        def __init__(self, output, targets, indexes):
            super().__init__(LOSS, output, targets)
            self.indexes = indexes

    queries = torch.arange(NUMBER) // 4
    expected = at_once(retrieval.RetrievalMAP(), (*GIVEN["answers"][3], queries))
    # torchmetrics alone takes a relevant one with a score of 0 or less for irrelevant
    for scores_of in (torch.sigmoid, torch.nn.Identity(), lambda logits: logits - 100):
        items = [
            Ranked(scores_of(item.output), item.targets, queries[start : start + len(item.targets)])
            for item, start in zip(batches(*GIVEN["answers"][:3]), (0, 7, 8, 20, 25), strict=True)
        ]
        values = tallied(adapted(retrieval.RetrievalMAP()), items).close_epoch()
        assert values["theirs"] == pytest.approx(expected[0])

    items = batches(*GIVEN["value"][:3])
    highest = tallied(adapted(torchmetrics.MaxMetric()), items).close_epoch()
    assert highest == {"theirs": float(PREDICTED[:, 0].max())}


def test_boxes_keep_their_image_and_a_picture_without_any_is_none():
    detection = pytest.importorskip("torchmetrics.detection")

    box, other = [0.0, 0, 10, 10], [5.0, 5, 15, 15]
    result = [
        {"boxes": torch.tensor([box, other])[:size], "labels": torch.tensor([0, 1])[:size]}
        for size in (2, 0, 1, 2)
    ]
    wanted = [{"boxes": torch.tensor([box]), "labels": torch.tensor([0])}] * 4
    items = [Pair(LOSS, result[:1], wanted[:1]), Pair(LOSS, result[1:2], wanted[1:2])]
    items.append(Pair(LOSS, result[2:], wanted[2:]))
    expected = at_once(detection.IntersectionOverUnion(), (result, wanted))
    values = tallied(adapted(detection.IntersectionOverUnion()), items).close_epoch()
    assert [*values.values()] == pytest.approx(expected)


def test_sums_take_no_memory_and_other_states_say_that_they_gather():
    assert not adapted(image.StructuralSimilarityIndexMeasure(data_range=1.0)).gathers
    assert adapted(image.PeakSignalNoiseRatio(data_range=1.0)).gathers
    (rows,) = {
        len(part)
        for part in adapted(image.PeakSignalNoiseRatio(data_range=1.0))(
            batches(*GIVEN["images"][:3])[0]
        )
    }
    assert rows == 1  # of a batch, whatever its size


@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`:UserWarning")
def test_a_metric_with_state_beyond_its_reset_is_emptied_for_each_batch():
    class Features(torch.nn.Module):
        num_features = 400

        def forward(self, images):
            return images.flatten(1)

    def distance():
        return KernelInceptionDistance(
            Features(), subsets=2, subset_size=5, reset_real_features=False
        )

    metric = adapted(
        distance(),
        inputs=lambda item: [
            {"imgs": item.targets, "real": True},
            {"imgs": item.output, "real": False},
        ],
    )
    items = batches(*GIVEN["images"][:3])
    reference = distance()
    reference.update(PICTURES, real=True)
    reference.update(BLURRED, real=False)
    torch.manual_seed(5)
    expected = [float(value) for value in reference.compute()]
    tally = tallied(metric, items)
    torch.manual_seed(5)  # of the subsets that it draws
    values = tally.close_epoch()
    assert [*values.values()] == pytest.approx(expected, rel=1e-5)
    assert len(metric.metric.real_features) == 0


def test_a_deep_copy_shares_nothing():
    metric = adapted(image.PeakSignalNoiseRatio(data_range=1.0))
    items = batches(*GIVEN["images"][:3])
    parts = metric(items[0])
    twin = copy.deepcopy(metric)
    twin(items[1])
    assert twin.value(*parts) == metric.value(*parts)


def test_a_wrapper_has_the_direction_of_the_metric_inside_it():
    wrapped = wrappers.MultioutputWrapper(regression.MeanSquaredError(), 2)
    assert Torchmetrics(wrapped).higher_is_better is False
    assert Torchmetrics(1 - regression.MeanSquaredError()).higher_is_better is None


@pytest.mark.parametrize("wrap", [wrappers.MinMaxMetric, wrappers.Running])
def test_a_wrapper_that_depends_on_the_order_of_batches_is_refused(wrap):
    name = wrap.__name__
    message = f"^metric={name}: {name} depends on the order of batches; give the metric inside it"
    with pytest.raises(ValueError, match=message):
        Torchmetrics(wrap(regression.MeanSquaredError()), higher_is_better=False)


def test_a_state_that_no_checkpoint_saves_is_an_error_that_names_it():
    class Kept(torchmetrics.Metric):
        higher_is_better = True

        def __init__(self):
            super().__init__()
            self.add_state("words", [], dist_reduce_fx=None)

        def update(self, output, targets):
            self.words.append("a word")

        def compute(self):
            return len(self.words)

    Kept.__module__ = "torchmetrics.text"
    with pytest.raises(
        errors.MismatchError, match="^Kept: Kept: its state words has a str; a check"
    ):
        Torchmetrics(Kept())(batches(*GIVEN["value"][:3])[0])

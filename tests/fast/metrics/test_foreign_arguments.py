"""Inputs of metrics of torchmetrics: images of a GAN, texts, and the user's own."""

import pytest
import torch
from foreign_metrics import LOSS, NUMBER, adapted, at_once, batches, restored, stream, tallied

from andiron import errors
from andiron.data import Batch
from andiron.metrics import Tally, Torchmetrics
from andiron.models import GAN
from andiron.outputs import (
    IGNORED, AdversarialOutput, ClassificationOutput, RegressionOutput, SequenceOutput,
)  # fmt: skip
from andiron.plain.token_texts import decoded
from andiron.tasks import Adversarial
from refusals import message_of

torchmetrics = pytest.importorskip("torchmetrics")
classification = pytest.importorskip("torchmetrics.classification")
image = pytest.importorskip("torchmetrics.image")
regression = pytest.importorskip("torchmetrics.regression")
text = pytest.importorskip("torchmetrics.text")
FrechetInceptionDistance = pytest.importorskip("torchmetrics.image.fid").FrechetInceptionDistance

SENTENCES = ["the cat sat on the mat", "a cat sat on a red mat", "dogs lie here or on mats"]
VOCABULARY = sorted({*"".join(SENTENCES)})


class Features(torch.nn.Module):
    """Means of the quarters of an image, as a feature network."""

    num_features = 4

    def forward(self, images):
        return torch.nn.functional.adaptive_avg_pool2d(images.float(), 2).flatten(1)


def distance(**options):
    return FrechetInceptionDistance(Features(), normalize=True, **options)


def of_gan(sizes=(5, 1, 6)):
    task = Adversarial(GAN(input_shape=(1, 8, 8), latent=4, width=8), input_mean=0.5, input_std=0.5)
    inputs = torch.randn(sum(sizes), 1, 8, 8, generator=stream()).clamp(-1, 1)
    return task, [
        task.valid_step(Batch(part, torch.zeros(len(part)))) for part in inputs.split(sizes)
    ]


@pytest.mark.parametrize("options", [{}, {"reset_real_features": False}])
def test_fid_gets_the_real_and_the_generated_images_and_resumes(options):
    _, items = of_gan()
    tally = Tally([adapted(distance(**options))])
    for item in items:
        tally.add(item)
    resumed = restored(tally, adapted(distance(**options)))
    real, fake = (
        torch.cat([(getattr(item, name) + 1) / 2 for item in items])
        for name in ("real_images", "generated_images")
    )
    expected = at_once(distance(), (real, True), (fake.detach(), False))
    values = tally.close_epoch()
    assert [*values.values()] == pytest.approx(expected, rel=1e-3)  # eigenvalues of float32 there
    assert resumed.close_epoch() == values
    assert not adapted(distance()).gathers


def test_the_training_step_gives_the_images_too_without_their_graph():
    task, _ = of_gan()
    item = task.train_step(Batch(torch.zeros(3, 1, 8, 8), torch.zeros(3))).item
    assert item.real_images.shape == item.generated_images.shape == (3, 1, 8, 8)
    assert not item.generated_images.requires_grad


def test_images_become_bytes_for_byte_networks_and_rgb_for_inception():
    class Seen(FrechetInceptionDistance):
        def update(self, imgs, real):
            self.seen = imgs

    _, (item, *_) = of_gan()
    for own, normalize, dtype, channels in [
        (True, False, torch.uint8, 1),
        (False, False, torch.uint8, 3),
        (False, True, torch.float32, 3),
    ]:
        metric = Seen(Features(), normalize=normalize)
        metric.used_custom_model = own
        adapted(metric)(item)
        assert metric.seen.dtype == dtype and metric.seen.shape == (5, channels, 8, 8)
        assert metric.seen.max() <= (1 if dtype.is_floating_point else 255)


def test_a_one_image_metric_gets_generated_images_and_pairs_are_refused():
    _, (item, *_) = of_gan()
    metric = adapted(image.TotalVariation())
    expected = at_once(image.TotalVariation(), ((item.generated_images.detach() + 1) / 2,))
    assert [metric.value(*metric(item))] == pytest.approx(expected)
    pairs = adapted(image.PeakSignalNoiseRatio(1.0))
    message = "^theirs: PeakSignalNoiseRatio takes preds, target, and there are no pairs in the Adv"
    with pytest.raises(errors.MismatchError, match=message):
        pairs(item)
    bare = AdversarialOutput(LOSS, LOSS, torch.zeros(2), torch.zeros(2), weight=2)
    with pytest.raises(
        errors.MismatchError, match="takes images, which are not in the Adversarial"
    ):
        adapted(distance())(bare)


def tokens_of(sentence, vocabulary):
    length = max(map(len, SENTENCES))
    codes = [*sentence.encode()] if vocabulary is None else [*map(vocabulary.index, sentence)]
    return codes + [IGNORED] * (length - len(codes))


def sequences(vocabulary, predicted):
    targets = torch.tensor([tokens_of(value, vocabulary) for value in SENTENCES])
    guesses = torch.tensor([tokens_of(value, vocabulary) for value in predicted]).clamp(min=0)
    classes = 256 if vocabulary is None else len(vocabulary)
    logits = torch.nn.functional.one_hot(guesses, classes).float()
    places = (slice(0, 2), slice(2, 3))
    return [SequenceOutput(LOSS, logits[place], targets[place], None, True) for place in places]


PREDICTED = ["the cat sat on the cat", "a cat sat in a red mat", "dogs lie here or in mats"]


@pytest.mark.parametrize("vocabulary", [None, VOCABULARY], ids=["bytes", "characters"])
@pytest.mark.parametrize("build", [
    text.BLEUScore, text.CHRFScore, text.WordErrorRate, text.EditDistance, text.TranslationEditRate,
    text.ExtendedEditDistance,
    lambda: text.ROUGEScore(rouge_keys=("rouge1", "rougeL")),
])  # fmt: skip
def test_a_metric_of_text_gets_the_decoded_predictions_and_targets(vocabulary, build):
    metric = adapted(build(), vocabulary=vocabulary)
    values = tallied(metric, sequences(vocabulary, PREDICTED)).close_epoch()
    targets = [[value] for value in SENTENCES] if build is text.BLEUScore else SENTENCES
    expected = at_once(build(), (PREDICTED, targets))
    assert [*values.values()] == pytest.approx(expected, rel=1e-5)
    assert expected != [0.0]


def test_perplexity_gets_logits_and_class_scores_get_flattened_tokens():
    items = sequences(VOCABULARY, PREDICTED)
    logits, targets = torch.cat([i.output for i in items]), torch.cat([i.targets for i in items])
    values = tallied(adapted(text.Perplexity(IGNORED)), items).close_epoch()
    expected = at_once(text.Perplexity(IGNORED), (logits, targets))
    assert [*values.values()] == pytest.approx(expected, rel=1e-5)
    one, other = (
        classification.MulticlassAccuracy(len(VOCABULARY), ignore_index=IGNORED) for _ in range(2)
    )
    values = tallied(adapted(one), items).close_epoch()
    expected = at_once(other, (logits.flatten(0, 1), targets.flatten()))
    assert [*values.values()] == pytest.approx(expected)


def test_a_vocabulary_of_an_unknown_text_is_asked_for():
    with pytest.raises(
        errors.MismatchError,
        match="^theirs: the text of 5 different tokens is unknown; give vocabulary: the text of",
    ):
        targets = torch.zeros(2, 3, dtype=torch.long)
        adapted(text.BLEUScore())(SequenceOutput(LOSS, torch.zeros(2, 3, 5), targets))


def test_text_of_an_item_without_tokens_is_refused():
    item = ClassificationOutput(LOSS, torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))
    message = "^theirs: BLEUScore takes text, which is not in the ClassificationOutput; give inputs"
    with pytest.raises(errors.MismatchError, match=message):
        adapted(text.BLEUScore())(item)


def test_tokens_are_bytes_or_words_of_the_vocabulary():
    assert decoded([0xC3, 0xA9]) == "é" and decoded([0xC3]) == "\N{REPLACEMENT CHARACTER}"
    assert decoded([2, 0], ["a", "b", "cd"]) == "cda"


@pytest.mark.parametrize(
    "inputs",
    [
        lambda item: (item.output[:, 0], item.targets.float()),
        lambda item: {"preds": item.output[:, 0], "target": item.targets.float()},
        lambda item: [
            (item.output[:1, 0], item.targets[:1].float()),
            {"preds": item.output[1:, 0], "target": item.targets[1:].float()},
        ],
    ],
    ids=["tuple", "dict", "list"],
)
def test_a_function_of_the_item_gives_other_arguments(inputs):
    logits = torch.randn(37, 4, generator=stream())
    classes = torch.randint(4, (37,), generator=stream())
    metric = adapted(regression.MeanSquaredError(), inputs=inputs)
    values = tallied(metric, batches(ClassificationOutput, logits, classes)).close_epoch()
    expected = at_once(regression.MeanSquaredError(), (logits[:, 0], classes.float()))
    assert [*values.values()] == pytest.approx(expected)


def test_what_a_metric_refuses_is_an_error_with_what_it_got_and_the_remedy():
    item = ClassificationOutput(LOSS, torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))
    with pytest.raises(errors.MismatchError) as caught:
        adapted(image.StructuralSimilarityIndexMeasure())(item)
    message = str(caught.value)
    assert message.startswith("theirs: StructuralSimilarityIndexMeasure: Predictions and t")
    assert "; it got float32 [5, 4] and int64 [5]; give inputs: a function of the item" in message
    assert message.endswith(", or leave it out, on the command line by ~metrics.theirs")


def test_arguments_that_cannot_be_joined_are_refused_if_needed_at_once():
    metric = adapted(
        regression.PearsonCorrCoef(),
        inputs=lambda item: {"preds": item.output[:, 0], "target": item.targets.float()},
    )
    item = ClassificationOutput(LOSS, torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))
    with pytest.raises(errors.MismatchError, match="is computed from all batches at once, which"):
        metric(item)


def test_an_error_of_the_users_own_metric_or_function_stays_his():
    class Own(torchmetrics.MeanSquaredError):
        def update(self, preds, target):
            raise KeyError("mine")

    def inputs(item):
        raise IndexError("mine")

    item = ClassificationOutput(LOSS, torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))
    assert "mine" in message_of(KeyError, Torchmetrics(Own()), item)
    with pytest.raises(IndexError, match="mine"):
        adapted(regression.MeanSquaredError(), inputs=inputs)(item)


def test_half_precision_gives_probabilities_in_float32():
    logits = torch.randn(NUMBER, 3, generator=stream()).mul(8).bfloat16()
    targets = logits.argmax(-1).roll(1)
    values = [
        tallied(
            adapted(classification.MulticlassAUROC(num_classes=3)),
            batches(ClassificationOutput, value, targets),
        ).close_epoch()
        for value in (logits, logits.float())
    ]
    assert values[0] == values[1] != {}


def test_ignored_values_are_left_out_or_refused():
    output, targets = torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [IGNORED]])
    one, several = (
        RegressionOutput(LOSS, output.expand(2, n), targets.expand(2, n), has_ignored=True)
        for n in (1, 2)
    )
    metric = adapted(regression.MeanSquaredError())
    assert tallied(metric, [one]).close_epoch() == {"theirs": 1}
    assert "cannot leave out ignored ones of several targets" in message_of(
        errors.MismatchError, metric, several
    )

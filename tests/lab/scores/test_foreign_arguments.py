"""Inputs of metrics of torchmetrics: the item's own, texts, and the user's own."""

import pytest
import torch
from foreign_metrics import LOSS, NUMBER, adapted, at_once, batches, stream, tallied

from andiron import errors
from andiron.outputs import (
    IGNORED, BinaryClassificationOutput, ClassificationOutput, RegressionOutput, SequenceOutput,
)  # fmt: skip
from andiron.plain.token_texts import decoded
from andiron_lab.scores import Torchmetrics
from refusals import message_of

torchmetrics = pytest.importorskip("torchmetrics")
classification = pytest.importorskip("torchmetrics.classification")
image = pytest.importorskip("torchmetrics.image")
regression = pytest.importorskip("torchmetrics.regression")
text = pytest.importorskip("torchmetrics.text")

SENTENCES = ["the cat sat on the mat", "a cat sat on a red mat", "dogs lie here or on mats"]
VOCABULARY = sorted({*"".join(SENTENCES)})


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


def test_an_aggregator_is_not_given_the_probabilities_of_classes():
    item = ClassificationOutput(LOSS, torch.randn(4, 3), torch.tensor([0, 1, 2, 0]))
    message = message_of(errors.MismatchError, tallied, adapted(torchmetrics.MeanMetric()), [item])
    assert "MeanMetric takes a value, which is not in the ClassificationOutput; give" in message


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


def test_answers_of_a_confident_network_are_ranked():
    """In float32, logits above 17 are ties of probability 1, and the area is 0.5."""
    targets = torch.arange(NUMBER) % 2
    logits = 20.0 + targets
    for metric, item, outputs_of in (
        (classification.BinaryAUROC(), BinaryClassificationOutput, logits),
        (classification.BinaryAveragePrecision(), BinaryClassificationOutput, logits),
        (
            classification.MulticlassAUROC(num_classes=2),
            ClassificationOutput,
            torch.stack([torch.zeros(NUMBER), logits], dim=-1),
        ),
    ):
        assert tallied(adapted(metric), batches(item, outputs_of, targets)).close_epoch() == {
            "theirs": 1
        }


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

"""Targets of other types, values and names than a loss takes: mended, or named with the remedy."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import errors, outputs
from andiron.data import Batch
from andiron.tasks import (
    BinaryClassifier, BinaryCrossEntropy, Classifier, CrossEntropy, Forward, LanguageModel,
    MeanSquaredError, MultiLabelClassifier,
)  # fmt: skip
from andiron.tasks.criterion import Criterion
from refusals import message_of

CLASSES = 3


def segmentation(loss):
    torch.manual_seed(0)
    return Forward(nn.Conv2d(1, CLASSES, 1), loss, inputs={"input": "image"}, targets="mask")


def masks(size, *places, samples=4):
    """Pictures with masks of 0, but for a row of each sample, or (sample, row, column, value)."""
    mask = torch.zeros(samples, size, size, dtype=torch.long)
    for sample, row, column, value in places:
        mask[sample, row, column] = value
    return {"image": torch.rand(samples, 1, size, size), "mask": mask}


EVERY = slice(None)
OWN, TORCH = CrossEntropy(), nn.CrossEntropyLoss()


@pytest.mark.parametrize("size", [5, 32, 300])
@pytest.mark.parametrize(("loss", "places", "said"), [
    (OWN, [(EVERY, 0, EVERY, 255)], "target 255 at {whole} places of samples 0, 1, 2, 3; should be "
     "0 to 2, the network gives 3 classes; no target is ignored, and loss.ignored_index=255 "),
    (TORCH, [(1, 0, EVERY, 255)], "target 255 at {row} places of samples 1; should be 0 to 2, the "
     "network gives 3 classes; -100 is ignored, and loss.ignore_index=255 would ignore 255"),
    (OWN, [(2, 1, 3, 4)], "sample 2 of the batch has target 4 at place 1, 3; should be 0 to 2, "),
    (OWN, [(0, 1, EVERY, 255), (2, 0, 0, 7)], "the batch has target 7 at 1 places of samples 2, "
     "target 255 at {row} places of samples 0; should be 0 to 2, the network gives 3 classes; no "
     "target is ignored"),
    (CrossEntropy(ignored_index=255), [(0, 1, EVERY, 254), (0, 2, 0, 255)],
     "target 254 at {row} places of samples 0; should be 0 to 2, the network gives 3 classes; 255 "
     "is ignored"),
    (CrossEntropy(ignored_index=255), [(0, 1, EVERY, -100), (0, 2, 0, 255)],
     "255 is ignored; of OnFields, ignored_index=255 marks new area so"),
    (lambda output, targets: functional.one_hot(targets, 3).float().mean() * output.mean(),
     [(3, 0, EVERY, 255)], "target 255 at {row} places of samples 3; should be 0 to 2"),
])  # fmt: skip
def test_a_class_out_of_range_in_a_mask_is_named_with_its_option(size, loss, places, said):
    message = message_of(errors.SampleError, segmentation(loss).train_step, masks(size, *places))
    assert said.format(whole=4 * size, row=size) in message


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.bool])
@pytest.mark.parametrize("kind", ["mask", "classes", "answers", "labels", "tokens", "own"])
def test_targets_of_any_integer_type_count_as_int64(kind, dtype):
    torch.manual_seed(1)
    linear, whole = nn.Linear(4, CLASSES), torch.tensor([[0, 1, 1], [1, 0, 1]])
    inputs, ignored = torch.randn(2, 4), 1 if dtype == torch.bool else 127

    def own(x, labels):
        logits = linear(x)
        return {"logits": logits, "loss": functional.cross_entropy(logits, labels)}

    task, batch = {
        "mask": (segmentation(CrossEntropy(ignored_index=ignored)), masks(4, (0, 0, 0, ignored))),
        "classes": (Classifier(linear), Batch(inputs, whole[:, 0])),
        "answers": (BinaryClassifier(nn.Linear(4, 1)), Batch(inputs, whole[:, 0])),
        "labels": (MultiLabelClassifier(linear), Batch(inputs, whole)),
        "tokens": (LanguageModel(nn.Embedding(4, 4)), Batch(whole, whole)),
        "own": (Forward(Called(own)), {"x": inputs, "labels": whole[:, 0]}),
    }[kind]
    expected = task.valid_step(batch)
    if isinstance(batch, dict):
        other = {k: v.to(dtype) if not v.is_floating_point() else v for k, v in batch.items()}
    else:
        other = Batch(batch.inputs, batch.targets.to(dtype))
    result = task.valid_step(other)
    assert result.loss == expected.loss and result.targets.equal(expected.targets)
    assert result.targets.dtype == torch.int64 and int(result.weight) == int(expected.weight)


class Called(nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, **arguments):
        return self.function(**arguments)


def test_a_sequence_in_a_task_of_classes_names_the_task_that_takes_it():
    batch = masks(16)
    task = Classifier(nn.Conv1d(1, CLASSES, 1), num_classes=CLASSES)
    lines = Batch(batch["image"][:, :, 0], batch["mask"][:, 0])
    message = message_of(errors.DataError, task.train_step, lines)
    assert "gives [4, 3, 16] for targets [4, 16]" in message
    assert message.endswith("takes masks, task=forward classes of other places")


def test_probabilities_from_mixup_are_named_where_one_logit_is_compared():
    batch = Batch(torch.rand(4, 2), torch.rand(4, 2))
    message = message_of(errors.DataError, BinaryClassifier(nn.Linear(2, 1)).train_step, batch)
    assert message.endswith("as from mixup, choose task=classification")


def test_batchmean_is_a_mean_over_samples():
    loss = Criterion(nn.KLDivLoss(reduction="batchmean"))
    log_p, p = torch.randn(6, 5).log_softmax(1), torch.rand(6, 5).softmax(1)
    assert loss.weight(p) == 6
    parts = [(loss(log_p[rows], p[rows]), loss.weight(p[rows])) for rows in (slice(2), slice(2, 6))]
    mean = sum(value * weight for value, weight in parts) / 6
    torch.testing.assert_close(loss(log_p, p), mean)


def causal(ids, labels, shift):
    logits = functional.one_hot(ids, 9).float()
    compared = (logits[:, :-1], labels[:, 1:]) if shift else (logits, labels)
    loss = functional.cross_entropy(compared[0].flatten(0, 1), compared[1].flatten())
    return {"logits": logits, "loss": loss}


def test_a_causal_network_that_does_not_shift_needs_shifted_labels():
    batch = {"ids": torch.arange(12).view(2, 6) % 9, "labels": torch.arange(12).view(2, 6) % 9}
    network = Called(lambda ids, labels: causal(ids, labels, shift=False))
    task = Forward(network, mean_over="next_targets")
    message = message_of(errors.DataError, task.predict, batch)
    assert "shift the labels by one in the data, and set task.mean_over=targets" in message
    shifted = Called(lambda ids, labels: causal(ids, labels, shift=True))
    message = message_of(errors.DataError, Forward(shifted, mean_over="targets").predict, batch)
    assert message.endswith("the mean over next_targets; set that")


@pytest.mark.parametrize(("fields", "remedy"), [
    (["ids", "label"], "'task.inputs={ids: ids, labels: label}' task.targets=label"),
    (["ids", "mask", "Labels"], "{ids: ids, mask: mask, labels: Labels}' task.targets=Labels"),
    (["ids", "label_ids"], "'task.inputs={ids: ids, labels: label_ids}' task.targets=label_ids"),
    (["ids", "score"], "'task.inputs={ids: ids, score: score, labels: FIELD}' task.targets=FIELD"),
])  # fmt: skip
def test_a_field_of_targets_of_another_name_is_named_with_the_options(fields, remedy):
    network = Called(lambda labels=None, **inputs: {"logits": torch.zeros(2, CLASSES)})
    batch = dict.fromkeys(fields, torch.zeros(2).long())
    message = message_of(errors.DataError, Forward(network).train_step, batch)
    assert "the batch has no field 'labels', but: ids, " in message and message.endswith(remedy)


def test_the_options_name_no_field_that_the_network_only_takes_as_one_more():
    class Tagger(nn.Module):
        def forward(self, ids=None, labels=None, **further):
            return {"logits": torch.zeros(2, CLASSES)}

    batch = {"text": ["a", "b"], "ids": torch.zeros(2), "label": torch.zeros(2).long()}
    message = message_of(errors.DataError, Forward(Tagger()).train_step, batch)
    assert message.endswith("'task.inputs={ids: ids, labels: label}' task.targets=label")


@pytest.mark.parametrize("loss", [
    functional.binary_cross_entropy_with_logits, functional.soft_margin_loss, nn.BCELoss(),
])  # fmt: skip
def test_integer_labels_that_an_own_loss_refuses_are_named(loss):
    linear = nn.Linear(4, CLASSES)

    def own(x, labels):
        logits = linear(x).sigmoid()
        return {"logits": logits, "loss": loss(logits, labels)}

    batch = {"x": torch.randn(2, 4), "labels": torch.tensor([[0, 1, 1], [1, 0, 1]])}
    try:
        Forward(Called(own), mean_over="samples").predict(batch)
    except errors.DataError as error:
        assert "give float32 in the data, or set loss=binary_cross_entropy" in str(error)
    else:  # torch took the integers
        assert loss is functional.soft_margin_loss


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_ratings_are_values_if_they_are_integers_too(own, dtype):
    linear, ratings = nn.Linear(4, 1), torch.tensor([3, 1, 5]).to(dtype)

    def network(x, labels=None):
        values = linear(x)
        if not own:
            return values[:, 0]
        return {"logits": values, "loss": functional.mse_loss(values[:, 0], labels.float())}

    task = Forward(Called(network), None if own else MeanSquaredError(),
                   mean_over="samples" if own else None)  # fmt: skip
    item = task.valid_step({"x": torch.randn(3, 4), "labels": ratings})
    assert isinstance(item, outputs.RegressionOutput) and item.targets.dtype == torch.float32
    assert [*task.answers(torch.tensor([[0.5, 2.0]]), {})] == [{"text": "0.5, 2"}]
    nine = ", ".join("01234567") + ", ..."
    assert [*task.answers(torch.arange(9.0)[None], {})] == [{"text": nine}]
    assert item.output.shape == item.targets.shape == (3, 1)
    assert int(item.weight) == 3


def test_an_answer_out_of_range_names_its_option():
    task = MultiLabelClassifier(nn.Linear(2, 2), BinaryCrossEntropy())
    batch = Batch(torch.rand(3, 2), torch.tensor([[0, -1], [1, 0], [-1, 1]]))
    message = message_of(errors.SampleError, task.train_step, batch)
    assert message.endswith("no target is ignored, and loss.ignored_index=-1 would ignore -1")

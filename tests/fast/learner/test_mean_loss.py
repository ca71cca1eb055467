"""A loss that is no mean over samples or targets: trained as it is, but never in parts."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import errors
from andiron.data import ArrayBatcher, ArrayDataset, DataLoader
from andiron.distributed import ALONE, World
from andiron.learner import LearnerBuilder
from andiron.learner.extras import first_updates
from andiron.metrics import Loss
from andiron.optim import Optimizer
from andiron.tasks import (
    BinaryClassifier, Classifier, CrossEntropy, Forward, MeanSquaredError, Regressor,
)  # fmt: skip
from refusals import message_of

NUMBER = 12
refused = partial(first_updates.refused, is_whole=True)
DRAW = torch.Generator().manual_seed(0)
INPUTS = torch.randn(NUMBER, 4, generator=DRAW)
CLASSES = torch.tensor([0, 2, 1, 1, 2, 0, 2, 0, 1, 1, 2, 0])


def loader(targets=CLASSES, batch_size=6, world=ALONE):
    return DataLoader(ArrayDataset(INPUTS, targets), ArrayBatcher(), batch_size=batch_size,
                      world=world)  # fmt: skip


def trained(task, train, **options):
    torch.manual_seed(1)
    builder = LearnerBuilder(num_epochs=1, **options).metric_valid_numeric(Loss()).renderer(None)
    with builder.unrecorded().build(task, Optimizer(torch.optim.SGD, task), 0.01) as learner:
        learner.fit(train, loader(train.dataset.targets))


def dice(output, targets):
    """Of each class over the whole batch, as in segmentation_models_pytorch."""
    p, one_hot = output.softmax(1), functional.one_hot(targets, 3)
    return 1 - (2 * (p * one_hot).sum(0) / (p + one_hot).sum(0)).mean()


def two_way(output, targets):
    """Compares the samples of a batch with each other, as timm's TwoWayLoss."""
    return functional.cross_entropy(output, targets) + output.logsumexp(0).mean()


def of_all_places(output, targets):
    """Divides by the ignored targets too."""
    return functional.cross_entropy(output, targets, reduction="sum", ignore_index=0) / len(targets)


of_all_places.ignored_index = 0
NO_MEANS = {
    "dice": dice, "two way": two_way, "all places": of_all_places,
    "sum": lambda output, targets: functional.cross_entropy(output, targets, reduction="sum"),
    "root": lambda output, targets: functional.cross_entropy(output, targets).sqrt(),
}  # fmt: skip


@pytest.mark.parametrize("loss", NO_MEANS)
def test_a_loss_that_is_no_mean_trains_whole_and_is_refused_in_parts(loss):
    torch.manual_seed(0)
    task = Classifier(nn.Linear(4, 3), NO_MEANS[loss])
    trained(task, loader())
    said = message_of(errors.MismatchError, trained, task, loader(), grads_accumulation=2)
    assert said.startswith("grads_accumulation=2: the loss of samples together is ")
    assert "or choose a loss that is a mean" in said
    for world, option in [
        (World(slices=4), "slices=4: "), (World(slices=12), "slices=12: "),
        (World(1, 2), "processes=2: "), (World(0, 2, 4), "slices=4, processes=2: "),
    ]:  # fmt: skip
        train = loader(batch_size=12, world=world)
        arguments = train.epoch(0), train, task, world, 1
        assert message_of(errors.MismatchError, refused, *arguments).startswith(option)


class Network(nn.Module):
    def __init__(self, *, norm=None, dropout=0.0, noise=0.0, own=None):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 8), norm or nn.Identity(), nn.Dropout(dropout))
        self.head, self.noise, self.own = nn.Linear(8, 3), noise, own

    def forward(self, x, labels=None):
        hidden = self.body(x)
        logits = self.head(hidden + self.noise * torch.randn_like(hidden))
        return {"logits": logits, "loss": self.own(logits, labels)} if self.own else logits


def summed(logits, labels):
    return functional.cross_entropy(logits, labels, reduction="sum")


def with_balance(logits, labels):
    """An auxiliary loss of how evenly the batch uses the experts."""
    return functional.cross_entropy(logits, labels) + 0.5 * logits.softmax(1).mean(0).square().sum()


def batches(batch_size=6):
    pairs = zip(INPUTS.split(batch_size), CLASSES.split(batch_size))
    return [{"x": inputs, "labels": labels} for inputs, labels in pairs]


class Fields:
    def __init__(self, batch_size=6):
        self.num_items, self.batches = NUMBER, batches(batch_size)

    def __len__(self):
        return len(self.batches)

    def epoch(self, epoch, first_updates=0):
        return iter(self.batches[first_updates:])


@pytest.mark.parametrize("own", [summed, with_balance])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_networks_own_loss_that_is_no_mean_is_refused_in_parts(own, noise):
    task, fields = Forward(Network(own=own, noise=noise)), Fields()
    if own is with_balance and noise:  # hidden by the spread of its draws
        return
    assert "grads_accumulation=2" in message_of(
        errors.MismatchError, refused, fields.epoch(0), fields, task, World(), 2
    )
    assert len([*refused(fields.epoch(0), fields, task, World(), 1)]) == 2


RATES = torch.rand(NUMBER, 1, generator=DRAW)
MEANS = {
    "classes": (Classifier(Network(), CrossEntropy([1.0, 2.0, 0.5], 0.1)), CLASSES),
    "ignored": (Classifier(Network(), CrossEntropy(ignored_index=0)), CLASSES),
    "all ignored": (Classifier(Network(), CrossEntropy(ignored_index=7)), CLASSES * 0 + 7),
    "torch": (Classifier(Network(), nn.CrossEntropyLoss(ignore_index=0)), CLASSES),
    "batchmean": (Classifier(Network(), nn.KLDivLoss(reduction="batchmean")),
                  torch.randn(NUMBER, 3, generator=DRAW).softmax(1)),
    "values": (Regressor(nn.Linear(4, 1), MeanSquaredError()), RATES),
    "answers": (BinaryClassifier(nn.Linear(4, 1)), CLASSES.clamp(max=1)),
    "dropout": (Classifier(Network(dropout=0.5)), CLASSES),
    "batch norm": (Classifier(Network(norm=nn.BatchNorm1d(8))), CLASSES),
    "batch norm of the batch": (
        Classifier(Network(norm=nn.BatchNorm1d(8, track_running_stats=False))), CLASSES),
    "random network": (Classifier(Network(noise=1.0)), CLASSES),
    "bfloat16": (Classifier(Network().bfloat16()), CLASSES),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_divided_whatever_else_the_network_does(name):
    task, targets = MEANS[name]
    inputs = INPUTS.bfloat16() if name == "bfloat16" else INPUTS
    train = DataLoader(ArrayDataset(inputs, targets), ArrayBatcher(), batch_size=6)
    before = torch.get_rng_state()
    state = {key: value.clone() for key, value in task.state_dict().items()}
    result = [*refused(train.epoch(0), train, task, World(), 2)]
    assert len(result) == 2 and result[0].inputs.equal(inputs[:6])
    assert torch.get_rng_state().equal(before) and task.training
    assert all(value.equal(state[key]) for key, value in task.state_dict().items())


@pytest.mark.parametrize("divided", [
    [torch.ones(1, 4)], [{"x": [[1, 2]], "labels": torch.ones(3)}], [None], [],
])  # fmt: skip
def test_batches_that_cannot_be_cut_are_left_to_the_update(divided):
    task = Forward(Network(own=summed))
    assert [*refused(iter(divided), Fields(), task, World(), 2)] == divided


def test_a_single_sample_a_batch_is_divided():
    fields = Fields(1)
    task = Forward(Network(own=summed))
    assert len([*refused(fields.epoch(0), fields, task, World(), 4)]) == NUMBER

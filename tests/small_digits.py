"""A small run on the digits: 53 samples in 7 batches, the last one short."""

import dataclasses

import torch

from andiron import data
from andiron.learner import LearnerBuilder
from andiron.metrics import Accuracy, Loss
from andiron.models import ConvNet
from andiron.optim import Group, GroupedOptimizer, Optimizer
from andiron.tasks import Classifier

DIGITS = data.digits(valid=0.1, split_seed=0)
TRAIN, VALID, TEST = (
    getattr(DIGITS, part).subset(range(size))
    for part, size in (("train", 53), ("valid", 17), ("test", 11))
)
BATCH, BATCHES, SEED, LR = 8, 7, 5, 0.01


def classifier(dropout=0.5):
    torch.manual_seed(1)
    return Classifier(ConvNet(DIGITS.input_shape, 10, hidden=16, dropout=dropout))


def builder(folder, *writers, num_epochs=2):
    metrics = Loss(), Accuracy()
    chosen = LearnerBuilder(folder, num_epochs=num_epochs, log_every=3, seed=SEED).unrecorded()
    return (
        chosen.metric_train_numeric(*metrics).metric_valid_numeric(*metrics).with_writers(*writers)
    )


def loaders():
    train = data.DataLoader(TRAIN, DIGITS.batcher, batch_size=BATCH, shuffle_seed=3)
    return (
        train,
        data.DataLoader(VALID, DIGITS.batcher, batch_size=7),
        data.DataLoader(TEST, DIGITS.batcher, batch_size=7),
    )


def lengthen(learner, num_epochs):
    """Has a resumed learner train until it has `num_epochs`."""
    longer = dataclasses.replace(learner.options, num_epochs=num_epochs)
    learner.options = learner._loop._agenda._options = longer


def two_optimizers(model, **settings):
    tensors = dict(model.named_parameters())
    matrices = [name for name in tensors if tensors[name].dim() == 2]
    rest = [name for name in tensors if tensors[name].dim() != 2]
    return GroupedOptimizer(model, [
        Group(name="matrices", parameters={name: tensors[name] for name in matrices}, lr_scale=2.0,
              optimizer=Optimizer(torch.optim.SGD, model, matrices, momentum=0.9)),
        Group(name="rest", parameters={name: tensors[name] for name in rest}, **settings,
              optimizer=Optimizer(torch.optim.Adam, model, rest)),
    ])  # fmt: skip


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)

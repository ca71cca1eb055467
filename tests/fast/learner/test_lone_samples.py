"""Before the first update, a batch of one sample that BatchNorm cannot train on is refused, and a
network in evaluation mode is named.
"""

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.data import ArrayBatcher, ArrayDataset, DataLoader
from andiron.distributed import ALONE, World
from andiron.learner import LearnerBuilder
from andiron.learner.extras import first_updates
from andiron.metrics import Loss
from andiron.tasks import Classifier

torch_loader = torch.utils.data.DataLoader


def flat():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))


def pooled():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 6, 2), nn.BatchNorm2d(6), nn.Flatten(),
        nn.Linear(6, 3),
    )  # fmt: skip


def of_pixels():
    """BatchNorm over 4 pixels, for which one sample is enough."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 3)
    )


def plain():
    return nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3))


def samples(number):
    torch.manual_seed(0)
    return ArrayDataset(torch.randn(number, 4), torch.arange(number) % 3)


def pairs(number):
    return [*zip(samples(number).inputs, samples(number).targets, strict=True)]


def loader(number, size, world=ALONE):
    return DataLoader(samples(number), ArrayBatcher(), batch_size=size, shuffle_seed=1, world=world)


def fitted(network, train, world=None, **options):
    """The state after training."""
    torch.manual_seed(3)
    model = Classifier(network())
    builder = LearnerBuilder(**{"num_epochs": 1, **options}).metric_valid_numeric(Loss())
    builder = builder.renderer(None).unrecorded()
    if world is not None:
        builder = builder.world(world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with builder.build(model, optimizer) as learner:
        try:
            learner.fit(train, loader(4, 4, world or ALONE))
        except errors.MismatchError:
            assert learner.updates == 0
            raise
    return model.state_dict()


REFUSED = {
    "last": (flat, lambda: loader(9, 4), {}),
    "last of pixels that are pooled": (pooled, lambda: loader(9, 4), {}),
    "each": (flat, lambda: loader(4, 1), {}),
    "the only one": (flat, lambda: loader(1, 8), {}),
    "accumulated": (flat, lambda: loader(13, 4), {"grads_accumulation": 2}),
    "torch's loader": (flat, lambda: torch_loader(pairs(9), batch_size=4, shuffle=True), {}),
    "of later updates": (flat, lambda: loader(9, 4), {"num_epochs": None, "num_updates": 3}),
    "slice": (flat, lambda: loader(8, 4, World(slices=4)), {"world": World(slices=4)}),
    "slice of the last": (flat, lambda: loader(11, 8, World(slices=2)), {"world": World(slices=2)}),
}
TRAINED = {
    "two": (flat, lambda: loader(10, 4), {}),
    "pixels": (of_pixels, lambda: loader(9, 4), {}),
    "pixels one by one": (of_pixels, lambda: loader(4, 1), {}),
    "without BatchNorm": (plain, lambda: loader(9, 4), {}),
    "dropped": (flat, lambda: torch_loader(pairs(9), batch_size=4, drop_last=True), {}),
    "not reached": (flat, lambda: loader(9, 4), {"num_epochs": None, "num_updates": 2}),
    "slices of two": (flat, lambda: loader(12, 4, World(slices=2)), {"world": World(slices=2)}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_a_lone_sample_is_refused_before_the_first_update(case):
    network, train, options = REFUSED[case]
    with pytest.raises(errors.MismatchError, match="batch_size: .* choose another batch_size"):
        fitted(network, train(), **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", TRAINED)
def test_what_batchnorm_can_train_on_is_trained(case):
    network, train, options = TRAINED[case]
    fitted(network, train(), **options)


def test_the_trial_changes_no_bit(monkeypatch):
    tried = fitted(of_pixels, loader(9, 4))
    monkeypatch.setattr("andiron.learner.extras.first_updates._try", lambda *arguments: None)
    for name, tensor in fitted(of_pixels, loader(9, 4)).items():
        assert torch.equal(tensor, tried[name])


def test_only_the_first_epoch_of_a_process_is_tried(monkeypatch):
    tried = []
    refused = first_updates.refused
    monkeypatch.setattr(
        first_updates, "refused",
        lambda *given, **named: tried.append(1) or refused(*given, **named),
    )
    fitted(flat, loader(10, 4), num_epochs=3)
    assert tried == [1]


@pytest.mark.filterwarnings("ignore")
def test_a_network_left_in_evaluation_mode_is_named_and_a_frozen_layer_is_not(caplog):
    def frozen():
        network = flat()
        network[1].eval()
        return network

    fitted(frozen, loader(10, 4))
    assert "evaluation mode" not in caplog.text
    fitted(lambda: flat().eval(), loader(10, 4))
    assert "network trains in evaluation mode: no dropout" in caplog.text


def test_an_epoch_without_a_batch_left_is_tried_on_nothing():
    """A run is resumed so in the validation after its last batch."""
    parts = loader(5, 2), Classifier(flat()), ALONE, 1
    left = first_updates.refused(iter(()), *parts, is_whole=True)
    assert [*left] == []

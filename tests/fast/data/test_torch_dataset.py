"""A data set written for torch's DataLoader, sample by sample."""

import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from andiron.data import ArrayBatcher, DataLoader, RawBatch, from_torch

INPUTS, TARGETS = torch.arange(10.0).view(5, 2), torch.arange(5)
SQUARES = TensorDataset(INPUTS, TARGETS)


class Numbers(torch.utils.data.Dataset):
    """Pairs of a tensor and an int, as torchvision's data sets return them."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return INPUTS[index], index


@pytest.mark.parametrize("dataset", [SQUARES, Subset(SQUARES, range(5)), Numbers()])
@pytest.mark.parametrize("indices", [[3, 1], torch.tensor([4]), range(5)])
def test_samples_are_those_of_the_data_set_in_order(dataset, indices):
    adapted = from_torch(dataset)
    found = adapted.__getitems__(indices)

    chosen = torch.as_tensor(indices)
    assert isinstance(found, RawBatch) and len(adapted) == 5
    assert torch.equal(found.inputs, INPUTS[chosen])
    assert torch.equal(found.targets, TARGETS[chosen])


def test_what_is_not_a_pair_is_as_collated():
    adapted = from_torch([{"x": torch.ones(2)}, {"x": torch.zeros(2)}])

    assert torch.equal(adapted.__getitems__([1, 0])["x"], torch.tensor([[0.0, 0.0], [1.0, 1.0]]))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_gathers_them(num_workers):
    loader = DataLoader(
        from_torch(Numbers()), ArrayBatcher(), batch_size=2, shuffle_seed=1, num_workers=num_workers
    )
    targets = torch.cat([batch.targets for batch in loader.epoch(0)])
    loader.close()

    assert torch.equal(targets, loader.order(0))

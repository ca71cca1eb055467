"""A data set that was written for torch's own DataLoader.

    >>> import torch
    >>> from andiron.data import from_torch
    >>> squares = torch.utils.data.TensorDataset(torch.arange(9.0), torch.arange(9) ** 2)
    >>> from_torch(squares).__getitems__([2, 5])
    RawBatch(inputs=tensor([2., 5.]), targets=tensor([ 4, 25]))
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import default_collate

from andiron.data.dataset import Indices, RawBatch


class SampleBySample:
    """The samples of a map-style `torch.utils.data.Dataset`, fetched one by one and collated."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]):
        self.dataset = dataset
        self.collate = collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in this order: a pair as a RawBatch, others as collated."""
        samples = [self.dataset[index] for index in torch.as_tensor(indices).tolist()]
        batch = self.collate(samples)
        is_pair = isinstance(batch, list | tuple) and len(batch) == 2
        return RawBatch(*batch) if is_pair else batch


def from_torch(
    dataset: Any, collate: Callable[[list[Any]], Any] = default_collate
) -> SampleBySample:
    """A map-style torch data set, with `__len__` and `__getitem__(index)`, as a Dataset.

    `collate` makes a batch of a list of samples. Random transforms inside the data set do not
    repeat after a resume; those in the group `augmentation` do.
    """
    return SampleBySample(dataset, collate)

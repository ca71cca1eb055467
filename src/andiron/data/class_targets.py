"""Which class every sample of a data set has."""

import torch
from jaxtyping import Int
from torch import Tensor

from andiron.data.composed import composed_datasets
from andiron.data.dataset import Dataset
from andiron.data.on_disk.stored import StoredDataset

AT_ONCE = 1024  # samples gathered where there is no other way to their targets


def targets_of(dataset: Dataset) -> Tensor:
    """The target of every sample: as the data set has them, read from their file, or gathered with the inputs."""
    targets = composed_datasets.in_memory_targets(dataset)
    if targets is not None:
        return targets.cpu()
    if isinstance(dataset, StoredDataset):
        return dataset.targets.read(dataset.indices)
    batches = torch.split(torch.arange(len(dataset)), AT_ONCE)
    return torch.cat([dataset.__getitems__(indices).targets.cpu() for indices in batches])


def of(dataset: Dataset) -> Int[Tensor, " size"]:
    """The class of every sample, and one class for all where the targets are no classes."""
    targets = targets_of(dataset)
    is_class = targets.dim() == 1 and not targets.is_floating_point()
    return targets.long() if is_class else torch.zeros(len(targets), dtype=torch.int64)

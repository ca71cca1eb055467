"""A data set that fits in memory: one tensor of raw inputs, one of targets."""

import torch

from andiron.data.dataset import Indices, RawBatch, Samples


class ArrayDataset:
    """Samples by index; a whole batch is one gather."""

    def __init__(self, inputs: Samples, targets: Samples):
        if len(inputs) != len(targets):
            raise ValueError(
                f"{len(inputs)} inputs but {len(targets)} targets; each input needs one"
            )
        self.inputs = inputs
        self.targets = targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in this order."""
        chosen = torch.as_tensor(indices, device=self.targets.device)
        return RawBatch(self.inputs.index_select(0, chosen), self.targets.index_select(0, chosen))

    def __getitem__(self, index: int) -> RawBatch:
        return RawBatch(self.inputs[index], self.targets[index])

    def subset(self, indices: Indices) -> "ArrayDataset":
        """A data set of the samples at `indices`."""
        return ArrayDataset(*self.__getitems__(indices))

    def to(self, device: torch.device) -> "ArrayDataset":
        """The same samples in the memory of `device`."""
        return ArrayDataset(self.inputs.to(device), self.targets.to(device))

"""DataLoaderBuilder: a loader built option by option, as in Burn."""

from typing import Any

import torch

from andiron.data.augment.sample_random import Augmentation
from andiron.data.dataset import Batcher, Dataset
from andiron.data.loader import DataLoader
from andiron.distributed import World

OF_TRAINING = {"shuffle_seed", "augmentations"}


class DataLoaderBuilder:
    """Collects the options of a DataLoader, as in Burn."""

    def __init__(self, batcher: Batcher):
        self._batcher = batcher
        self._options: dict[str, Any] = {}
        self._since = set[str]()  # the last build: the options that were chosen

    def batch_size(self, size: int) -> "DataLoaderBuilder":
        """Samples in a batch."""
        return self._with(batch_size=size)

    def shuffle(self, seed: int) -> "DataLoaderBuilder":
        """Shuffles each epoch anew, by (seed, epoch)."""
        return self._with(shuffle_seed=seed)

    def num_workers(self, number: int) -> "DataLoaderBuilder":
        """Processes that fetch samples ahead of the step."""
        return self._with(num_workers=number)

    def device(self, device: torch.device | str) -> "DataLoaderBuilder":
        """The device of the batches."""
        return self._with(device=device)

    def augment(self, *augmentations: Augmentation) -> "DataLoaderBuilder":
        """Augments samples, in this order."""
        return self._with(augmentations=augmentations)

    def world(self, world: World) -> "DataLoaderBuilder":
        """Gives each process its part of every batch."""
        return self._with(world=world)

    def build(self, dataset: Dataset) -> DataLoader:
        """The loader over `dataset`.

        Raises: ValueError if an earlier loader of this builder was shuffled or augmented, and this
        one would be too, unasked.
        """
        if OF_TRAINING & (self._options.keys() - self._since):
            raise ValueError(
                "an earlier loader of this builder is shuffled or augmented, as this one would be; "
                "make a DataLoaderBuilder for each, such as for training and for validation"
            )
        self._since = set()
        return DataLoader(dataset, self._batcher, **self._options)

    def _with(self, **option: object) -> "DataLoaderBuilder":
        self._options |= option
        self._since |= option.keys()
        return self

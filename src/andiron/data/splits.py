"""A data set's parts: trained on, chosen by, and kept aside."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors, randomness
from andiron.data.arrays import ArrayDataset
from andiron.data.batcher import ImageBatcher

Validation = float | Literal["test"]


@dataclass(frozen=True)
class Splits:
    """What a data set gives a run. `test` is measured once, after training, and chooses nothing."""

    name: str
    train: ArrayDataset
    valid: ArrayDataset
    test: ArrayDataset
    batcher: ImageBatcher
    num_classes: int
    fingerprint: str  # SHA-256 over all samples, in their stored order
    validates_on_test: bool

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.train.inputs.shape[1:])


def hold_out(
    training: ArrayDataset, test: ArrayDataset, *, valid: Validation, split_seed: int
) -> tuple[ArrayDataset, ArrayDataset]:
    """The training data in two, (train, valid); with `valid="test"` all of it, and the test data once more.

    Raises: DataError if one of the two would be empty.
    """
    if valid == "test":
        return training, test
    kept, held = stratified_split(training.targets, float(valid), split_seed)
    if not len(kept) or not len(held):
        raise errors.DataError(
            f"data.valid={valid}: of {len(training)} training samples, {len(kept)} would train and {len(held)} validate; "
            "choose a fraction that leaves both some"
        )
    return training.subset(kept), training.subset(held)


def stratified_split(targets: Int[Tensor, " size"], fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices of the rest and of a random `fraction` of every class, both in ascending order."""
    shuffled = torch.randperm(len(targets), generator=randomness.stream(seed, "split"))
    by_class = shuffled[targets[shuffled].sort(stable=True).indices]
    parts = torch.split(by_class, torch.bincount(targets).tolist())
    held = torch.cat([part[: round(len(part) * fraction)] for part in parts]).sort().values
    is_held = torch.zeros(len(targets), dtype=torch.bool)
    is_held[held] = True
    return (~is_held).nonzero().flatten(), held

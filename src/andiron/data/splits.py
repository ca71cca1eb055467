"""A data set's parts: trained on, chosen by, and kept aside."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors, randomness
from andiron.data.arrays import ArrayDataset
from andiron.data.batcher import ImageBatcher
from andiron.data.dataset import Batcher, Dataset
from andiron.ranges import Validation


@dataclass(frozen=True)
class Splits:
    """What a data set gives a run. `test` is measured once, after training, and chooses nothing.

    `facts` are plain values that networks, tasks and metrics may ask for by parameter name, and that the run's folder keeps
    as data.json: `input_shape` (of one sample), `num_classes` or `num_outputs`, `class_names`, `vocabulary_size`, ...
    """

    name: str
    train: Dataset
    valid: Dataset
    test: Dataset
    batcher: Batcher
    facts: Mapping[str, Any]
    fingerprint: str  # SHA-256 over all samples, in their stored order
    validates_on_test: bool = False
    evaluation_batch_size: int = 256  # at least; on a CPU, 64 to 256 images at once are three times as fast an image as 1,024

    def __post_init__(self) -> None:
        for part in ("train", "valid", "test"):
            dataset = getattr(self, part)
            if not isinstance(dataset, Dataset):
                lacking = "has no __len__ and __getitems__(indices), which gives a RawBatch"
                raise errors.DataError(f"{self.name}.{part}: {type(dataset).__name__} {lacking}")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.facts["input_shape"])

    @property
    def num_classes(self) -> int:
        """How many classes there are to tell apart."""
        number: int = self.facts["num_classes"]
        return number

    @property
    def offered(self) -> dict[str, Any]:
        """The facts; how images are standardised; for classes as many outputs as there are, and the training samples of each."""
        derived: dict[str, Any] = {}
        if isinstance(self.batcher, ImageBatcher):
            derived |= {"input_mean": self.batcher.mean, "input_std": self.batcher.std}
        if "num_classes" in self.facts:
            derived |= {"num_outputs": self.num_classes, "class_counts": self._class_counts()}
        return {**derived, **self.facts}

    def _class_counts(self) -> list[int] | None:
        """None where the training data does not tell its targets, or they are no classes."""
        targets = getattr(self.train, "targets", None)
        if not isinstance(targets, Tensor) or targets.dim() != 1 or targets.is_floating_point():
            return None
        counts: list[int] = torch.bincount(
            targets[targets >= 0].long(), minlength=self.num_classes
        ).tolist()
        return counts


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


def stratified_split(
    targets: Int[Tensor, " size"], fraction: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Indices of the rest and of a random `fraction` of every class, both in ascending order."""
    shuffled = torch.randperm(len(targets), generator=randomness.stream(seed, "split"))
    by_class = shuffled[targets[shuffled].sort(stable=True).indices]
    parts = torch.split(by_class, torch.bincount(targets).tolist())
    held = torch.cat([part[: round(len(part) * fraction)] for part in parts]).sort().values
    is_held = torch.zeros(len(targets), dtype=torch.bool)
    is_held[held] = True
    return (~is_held).nonzero().flatten(), held

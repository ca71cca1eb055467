"""A torch DataLoader, or another iterable of batches, as a loader that the learner can resume."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor

from andiron import distributed, randomness
from andiron.data import structures
from andiron.data.dataset import Batch

PAGE = "docs/python.md, 'From plain torch'"
log = logging.getLogger("andiron")


class ForeignLoader:
    """The batches of an iterable, epoch by epoch; a pair of tensors becomes a Batch.

    Torch's CPU generator, and a generator of the DataLoader or its sampler, are seeded by (seed,
    epoch, batch), so that what they draw repeats on resume. A resumed run loads the batches before
    its position again, and drops them. Other random state of the user's code is not restored.
    Raises: TypeError for what cannot be iterated twice; ValueError if there are no batches.
    """

    def __init__(self, batches: Iterable[Any], seed: int, device: torch.device):
        kind = type(batches).__name__
        if isinstance(batches, Iterator):
            raise TypeError(
                f"{kind} cannot be iterated once an epoch; give a torch DataLoader, a list of "
                "batches, or andiron.data.DataLoaderBuilder"
            )
        self._batches = batches
        self._seed = seed
        self._device = device
        self._sampler: Any = getattr(batches, "sampler", None)
        owners = batches, self._sampler
        used: set[Any] = {getattr(owner, "generator", None) for owner in owners} - {None}
        self._generators = [(generator, generator.initial_seed()) for generator in used]
        self._length, self.num_items = self._sizes()
        self.batch_size = getattr(batches, "batch_size", None)
        if not self._length:
            raise ValueError(f"{kind} has no batches")

    def warn(self) -> None:
        """Says what a resumed run repeats, unless these are the batches of a list."""
        if not isinstance(self._batches, Sequence):
            log.warning(
                "training %s: a resumed run repeats its order if it draws from torch's generators "
                "only, and loads the batches before its position again; see %s",
                type(self._batches).__name__,
                PAGE,
            )

    def __len__(self) -> int:
        return self._length

    @property
    def recorded(self) -> dict[str, Any]:
        """The order of an epoch, for the record of a run."""
        seeds = [seed for _, seed in self._generators]
        drop_last = getattr(self._batches, "drop_last", None)
        return {"shuffle": [type(self._sampler).__name__, *seeds], "drop_last": drop_last}

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Any]:
        """The batches of one epoch from `first_batch` on, on the device."""
        for generator, seed in self._generators:
            generator.manual_seed(randomness.derive(seed, "epoch", epoch))
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        drawn = 0
        for drawn, batch in enumerate(self._drawn(epoch), start=1):
            if drawn > first_batch:
                yield _placed(batch, self._device)
        if drawn < self._length:
            raise RuntimeError(
                f"{type(self._batches).__name__}: epoch {epoch + 1} ended after {drawn} of its "
                f"{self._length} batches, as if its data set raised StopIteration; give each epoch "
                "the number of batches that `len` has"
            )

    def _drawn(self, epoch: int) -> Iterator[Any]:
        """The batches, each drawn from a stream of its own; the learner's draws are unchanged."""
        batches: Iterator[Any] | None = None
        generator = torch.default_generator
        if getattr(self._batches, "num_workers", 0):
            distributed.settle()
        for number in count():
            before = generator.get_state()
            generator.manual_seed(randomness.derive(self._seed, "batches", epoch, number))
            try:
                batches = iter(self._batches) if batches is None else batches
                batch = next(batches)
            except StopIteration:
                return
            finally:
                generator.set_state(before)
            yield batch

    def _sizes(self) -> tuple[int, int]:
        """The numbers of batches and of samples in an epoch; counted if the length is unknown."""
        batches: Any = self._batches
        try:
            length = len(batches)
        except TypeError:  # of an IterableDataset
            sizes = [structures.size_or_one(batch) for batch in self._drawn(0)]
            return len(sizes), sum(sizes)
        if self._sampler is not None and batches.batch_size:
            whole = length * batches.batch_size
            return length, whole if batches.drop_last else min(whole, len(self._sampler))
        return length, length * structures.size_or_one(next(self._drawn(0))) if length else 0


def _placed(batch: object, device: torch.device) -> Any:
    """The batch on the device; a pair of tensors becomes a Batch."""
    placed = structures.moved(batch, device)
    is_pair = type(placed) in structures.PLAIN and len(placed) == 2 and all(
        isinstance(part, Tensor) for part in placed
    )
    return Batch(*placed) if is_pair else placed

"""Gathers and augments the stored samples of a batch; also in worker processes."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from andiron import errors
from andiron.data.augment.sample_random import Augmentation, Draws
from andiron.data.dataset import Dataset, RawBatch, WeightedBatch, drawn


class Request(NamedTuple):
    """The indices of the samples to gather, and their epoch."""

    epoch: int
    indices: Any  # a tensor; a list for worker processes


@dataclass(frozen=True)
class Gather:
    """Gathers and augments the stored samples of a request.

    Raises: DataError for an augmentation that changes the targets of samples with weights: it mixes
    samples.
    """

    dataset: Dataset
    augmentations: tuple[Augmentation, ...]
    seed: int
    white: float | None = None  # of Draws

    def __call__(self, request: Request) -> Any:
        try:
            return self._gathered(request)
        except StopIteration as error:  # would silently end the epoch of whoever iterates
            raise RuntimeError("the data set raised StopIteration") from error

    def _gathered(self, request: Request) -> Any:
        indices = torch.as_tensor(request.indices)
        draws = Draws(self.seed, request.epoch, indices, white=self.white)
        raw = drawn(self.dataset, indices, draws)
        if type(raw) is tuple and len(raw) == 2:  # the (inputs, targets) of a user's data set
            raw = RawBatch(*raw)
        is_weighted = isinstance(raw, WeightedBatch)
        augmented = RawBatch(raw.inputs, raw.targets) if is_weighted else raw
        for place, augmentation in enumerate(self.augmentations):
            augmented = _augmented(augmentation, augmented, replace(draws, place=place))
            if is_weighted and augmented.targets is not raw.targets:
                name = name_of(augmentation)
                raise errors.DataError(
                    f"augmentation: {name} changes targets, and samples with weights keep theirs; "
                    "leave one of the two out"
                )
        return raw._replace(inputs=augmented.inputs) if is_weighted else augmented

    def __getitem__(self, request: Request) -> Any:
        """Gathers in a worker process; returns errors, as torch would add its traceback."""
        try:
            with errors.exits_refused(KeyboardInterrupt):
                return self(request)
        except errors.AndironError as error:
            return error


def name_of(augmentation: Augmentation) -> str:
    """The name that errors and records give an augmentation: of its class, unless it has one."""
    return str(getattr(augmentation, "name", type(augmentation).__name__))


def _augmented(augmentation: Augmentation, raw: Any, draws: Draws) -> Any:
    try:
        return augmentation(raw, draws)
    except Exception as error:
        given = errors.shapes(raw, "inputs") or type(raw).__name__
        name = name_of(augmentation)
        what = f"augmentation: {name} cannot change {given}"
        errors.explain(error, what, "leave it out, or choose data that it is for")
        raise

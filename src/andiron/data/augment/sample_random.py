"""Random numbers for the samples of a batch, each a function of (seed, epoch, index of the sample).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from andiron import randomness
from andiron.data.dataset import RawBatch

OF_DATA_SETS = ("sample",), ("collate",)  # streams that seed the default generators


@dataclass(frozen=True)
class Draws:
    """The random numbers of a sample: the same in every batch, however it is gathered.

    Each `owner`, an augmentation, and each `place`, its number in a loader, has a stream of its
    own. `noted` gets the uniform numbers by stream, if given. `white` is the stored value of a
    white pixel, if the batcher has it, `new` the class of new area if images are masks.
    """

    seed: int
    epoch: int
    indices: Int[Tensor, " batch"]
    noted: dict[str, Any] | None = None
    place: int = 0
    white: float | None = None
    new: int | None = None
    owners: dict[Any, tuple[int, Any]] = field(default_factory=dict)

    def stream(self, purpose: str, owner: object = None) -> str:
        """The name of the stream: the `purpose`, or `flip/2` for the second owner or place."""
        used = sum(key[0] == purpose for key in (*OF_DATA_SETS, *self.owners))
        key = purpose, self.place, id(owner)
        number, _ = self.owners.setdefault(key, (used, owner))  # kept, and with it its id
        return self.stream(f"{purpose}/{number + 1}", owner) if number else purpose

    def uniform(
        self, purpose: str, number: int = 1, owner: object = None
    ) -> Float[Tensor, "batch number"]:
        """`number` numbers in [0, 1) for every sample, on the device of the indices, by stream."""
        stream = self.stream(purpose, owner)
        numbers = randomness.uniform(self.seed, stream, self.epoch, self.indices, number)
        if self.noted is not None:
            self.noted[stream] = numbers
        return numbers


Augmentation = Callable[[RawBatch, Draws], RawBatch]  # of stored samples, on their device

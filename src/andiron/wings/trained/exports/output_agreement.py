"""How far an exported model's outputs are from the trained model's on the same inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data import structures

# of the largest output; float32 has 6e-8, and sums of 1,000 terms in another order lose 1e-5
TOLERANCE = 1e-4
Program = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Agreement:
    """The largest difference of any output, and the largest expected output."""

    batch_sizes: tuple[int, ...]
    largest_difference: float
    largest_output: float

    def __str__(self) -> str:
        sizes = " and ".join(map(str, self.batch_sizes))
        return (
            f"largest difference {self.largest_difference:.2g}, of outputs up to "
            f"{self.largest_output:.3g} (batches of {sizes})"
        )


def measured(
    exported: Program, batches: Sequence[object], expected: Sequence[Tensor], name: str
) -> Agreement:
    """The agreement over batches of inputs with their expected outputs.

    Raises: DataError, with the export's `name`, if a shape differs, or a value by more than the
    tolerance.
    """
    distances = []
    for inputs, reference in zip(batches, expected, strict=True):
        outputs = exported(inputs)
        if outputs.shape != reference.shape:
            raise errors.DataError(
                f"{name}: its outputs are {[*outputs.shape]}, where the model gives "
                f"{[*reference.shape]}; nothing was written"
            )
        distances.append((outputs.double() - reference.double()).abs().max())
    # NaN wins over numbers, unlike in Python's max
    difference = float(torch.stack(distances).max())
    largest = max(float(reference.abs().max()) for reference in expected)
    agreement = Agreement(tuple(dict.fromkeys(map(structures.size, batches))), difference, largest)
    if not difference <= TOLERANCE * largest:  # or NaN
        raise errors.DataError(
            f"{name}: {agreement}, more than {TOLERANCE:g} of them; nothing was written: of a "
            "network that draws random numbers, export one that takes them as inputs"
        )
    return agreement

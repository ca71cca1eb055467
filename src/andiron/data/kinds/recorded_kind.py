"""The kind of a data set, by its record in a run's folder.

>>> import torch
>>> from andiron.data import ImageBatcher
>>> data = Described("digits", ImageBatcher(0.5, 0.5, 16.0), {"input_shape": (1, 8, 8)}, 256)
>>> samples = of(data).samples(torch.zeros(3, 1, 8, 8))
>>> type(of(data)).__name__, len(samples.dataset), samples.names
('Pictures', 3, ['0', '1', '2'])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.data.kinds.new_samples import Kind, is_picture
from andiron.data.kinds.picture_files import Pictures
from andiron.data.kinds.rows import Rows
from andiron.data.kinds.texts import Texts
from andiron.data.splitting.described import Described


@dataclass(frozen=True)
class Arrays(Kind):
    """Arrays of the shape on record, or samples with named fields."""

    data: Described

    @staticmethod
    def is_of(data: Described) -> bool:
        return True

    @property
    def expected(self) -> str:
        if "input_shape" not in self.data.facts:
            return "run.predict in Python a list of samples, such as mappings by field, or arrays"
        return f"arrays of shape [number, {', '.join(map(str, self.data.facts['input_shape']))}]"

    def own_samples(self, inputs: Sequence[Any], keep: Sequence[str]) -> None:
        if isinstance(inputs[0], str | Path) or is_picture(inputs[0]):
            raise errors.DataError(
                f"pictures are not samples of {self.data.name}, of shape "
                f"{[*self.data.facts.get('input_shape', ())]} and type {self.data.input_dtype}; "
                f"give {self.expected}"
            )


KINDS: tuple[type[Any], ...] = (Rows, Texts, Pictures, Arrays)


def of(data: Described) -> Kind:
    """The first kind that a record is of."""
    kind: Kind = next(kind(data) for kind in KINDS if kind.is_of(data))
    return kind

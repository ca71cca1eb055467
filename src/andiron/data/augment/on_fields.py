"""An augmentation of single fields of a batch, such as a picture and its mask.

>>> import torch
>>> from andiron.data import Flip
>>> flip = OnFields(["image", "mask"], Flip(probability=1.0))
>>> batch = {"image": torch.tensor([[[[1, 2]]]]), "mask": torch.tensor([[[[0, 1]]]])}
>>> {name: [*field.flatten()] for name, field in flip(batch, Draws(0, 0, torch.arange(1))).items()}
{'image': [tensor(2), tensor(1)], 'mask': [tensor(1), tensor(0)]}
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from andiron.data import structures
from andiron.data.augment.sample_random import Augmentation, Draws
from andiron.data.dataset import RawBatch


@dataclass(frozen=True)
class OnFields:
    """`augmentation` of each of these fields, with the same random numbers for all.

    Fields of shape [batch, height, width] are images of one channel. Classes of a mask must not be
    interpolated, as `Rotate` does.
    """

    fields: Sequence[str]
    augmentation: Augmentation

    def __call__(self, raw: Any, draws: Draws) -> Any:
        """The same batch with the fields changed."""
        named: Any = dict(structures.fields(raw) or {})
        no_targets: Any = None  # an augmentation that mixes them is refused
        for field in self.fields:
            is_mask = named[field].dim() == 3
            images = named[field][:, None] if is_mask else named[field]
            changed = self.augmentation(RawBatch(images, no_targets), draws).inputs
            named[field] = changed[:, 0] if is_mask else changed
        return structures.rebuilt(raw, named)

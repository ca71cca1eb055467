"""An augmentation of single fields of a batch, such as a picture and its mask.

>>> import torch
>>> from andiron.data import Flip
>>> flip = OnFields(["image", "mask"], Flip(probability=1.0))
>>> batch = {"image": torch.tensor([[[[1, 2]]]]), "mask": torch.tensor([[[0, 1]]])}
>>> {name: [*field.flatten()] for name, field in flip(batch, Draws(0, 0, torch.arange(1))).items()}
{'image': [tensor(2), tensor(1)], 'mask': [tensor(1), tensor(0)]}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data import structures
from andiron.data.augment.image_augmentation import Flip
from andiron.data.augment.sample_random import Augmentation, Draws
from andiron.data.augment.torchvision_transforms import Torchvision, scaled
from andiron.data.dataset import RawBatch

NEW = {torch.uint8: 255, torch.bool: 0}  # the class of new area by type; others -100, as in torch
AREA, INSIDE = "area", 30011  # a mask of the area before, and its value


@dataclass(frozen=True)
class OnFields:
    """`augmentation` of each of these fields, with the same random numbers for all.

    Fields of shape [batch, height, width] are of one channel. Those in `masks` hold classes: no
    number between two is made, and new area is `ignored_index`, which the loss should ignore; by
    default 255 in bytes, false in booleans, else -100. By default masks are all integers but
    bytes with channels. A torchvision transform gets one mapping of tv_tensors for each sample.
    """

    fields: Sequence[str]
    augmentation: Augmentation
    masks: Sequence[str] | None = None
    ignored_index: int | None = None

    def __call__(self, raw: object, draws: Draws) -> Any:
        """The batch with the fields changed.

        Raises: DataError for fields that are neither pictures nor masks, or may be both.
        """
        stored: Any = dict(structures.fields(raw) or {})
        no_targets: Any = None  # an augmentation that mixes them is refused
        given: Any = {name: stored.get(name) for name in self.fields}
        self._check(given)
        new = {
            name: NEW.get(field.dtype, -100) if self.ignored_index is None else self.ignored_index
            for name, field in given.items()
            if self._is_mask(name, field)
        }
        images = {
            name: field if field.dim() == 4 else field[:, None] for name, field in given.items()
        }
        if isinstance(self.augmentation, Torchvision):
            images = _transformed(self.augmentation, images, new, draws)
        else:
            for name, image in images.items():
                part = RawBatch(image, no_targets)
                of_part = replace(draws, new=new.get(name))
                images[name] = self.augmentation(part, of_part).inputs
        for name, image in images.items():
            stored[name] = image if given[name].dim() == 4 else image[:, 0]
        return structures.rebuilt(raw, stored)

    def _check(self, given: dict[str, Any]) -> None:
        """Refuses what is no picture or mask, and a crop of several sizes."""
        for name, field in given.items():
            shape = [*getattr(field, "shape", ())]
            if len(shape) not in (3, 4):
                raise errors.DataError(
                    f"augmentation: OnFields takes pictures and masks, [batch, height, width] with "
                    f"or without channels, and {name!r} is {shape or type(field).__name__}; name "
                    "fields of the batch"
                )
        sizes = {name: [*field.shape[-2:]] for name, field in given.items()}
        have_boxes = any(size[1] == 4 for size in sizes.values())  # or very small pictures
        is_free = isinstance(self.augmentation, Flip) and not have_boxes
        if len({*map(tuple, sizes.values())}) > 1 and not is_free:
            raise errors.DataError(
                f"augmentation: OnFields takes pictures and masks of one height and width, not "
                f"{sizes}; resize them, and move boxes, in the data set"
            )

    def _is_mask(self, name: str, field: Tensor) -> bool:
        if self.masks is not None:
            return name in self.masks
        is_alone, is_byte = len(self.fields) == 1, field.dtype == torch.uint8
        if is_byte and field.shape[1:-2] == (1,) and name != self.fields[0]:
            raise errors.DataError(
                f"augmentation: {name!r}, bytes of one channel, may be a picture or classes; set "
                f"masks: [{name}] of OnFields for classes, else masks: []"
            )
        return not (field.is_floating_point() or is_byte and (is_alone or field.dim() == 4))


def _transformed(
    augmentation: Torchvision, batches: Mapping[str, Tensor], new: Mapping[str, int], draws: Draws
) -> dict[str, Tensor]:
    """Pictures, and masks with the class of their `new` area: a sample is one call."""
    given = {name: batch.cpu() for name, batch in batches.items()}
    given |= {name: scaled(given[name], draws.white) for name in given if name not in new}
    is_picture = len(given) == 1 and not new  # which the transforms get by itself
    samples = augmentation.of_samples(
        lambda place: _sample(given, new, place, is_picture=is_picture), draws
    )
    if is_picture:
        samples = [dict.fromkeys(given, sample) for sample in samples]
    made = {}
    for name, before in given.items():
        fields = [structures.part(sample, name) for sample in samples]
        if name in new:
            fields = [
                field.masked_fill(sample[AREA] != INSIDE, new[name])
                for field, sample in zip(fields, samples, strict=True)
            ]
        after = augmentation.stacked(before, fields)
        after = after if name in new else scaled(after, draws.white, is_back=True)
        made[name] = after.to(batches[name].device)
    return made


def _sample(
    batches: Mapping[str, Tensor], new: Mapping[str, int], place: int, *, is_picture: bool
) -> Any:
    """The fields of a sample as tv_tensors by name, with its area; or its only picture."""
    fields = {name: batch[place].clone() for name, batch in batches.items()}
    (picture, *_) = fields.values()
    if is_picture:
        return picture
    from torchvision import tv_tensors

    sample = {
        name: (tv_tensors.Mask if name in new else tv_tensors.Image)(field)
        for name, field in fields.items()
    }
    area = torch.full((1, *picture.shape[1:]), INSIDE)
    return {**sample, AREA: tv_tensors.Mask(area)}

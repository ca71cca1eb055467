"""Pictures: files, folders of files and PIL images, decoded as in training."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import Indices, RawBatch
from andiron.data.kinds.new_samples import Kind, NewSamples, is_picture
from andiron.data.on_disk import image_decoding, image_tree
from andiron.ranges import Resizing

PICTURE_SCALE = 255.0  # of pixels of files and PIL images


@dataclass
class PictureFiles:
    """Files and PIL images as uint8 [channels, height, width], decoded as in training.

    Unreadable pictures are black; `unreadable` has the reasons by index.
    """

    pictures: Sequence[Any]
    names: Sequence[str]
    shape: tuple[int, ...]
    resizing: Resizing
    unreadable: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The pictures at `indices`, in this order; all targets are 0."""
        pixels = [self._pixels(index) for index in torch.as_tensor(indices).tolist()]
        return RawBatch(torch.stack(pixels), torch.zeros(len(pixels), dtype=torch.long))

    def _pixels(self, index: int) -> Tensor:
        picture = self.pictures[index]
        try:
            if isinstance(picture, str | Path):
                return image_decoding.of_file(Path(picture), self.shape, self.resizing)
            name = self.names[index]
            return image_decoding.of_picture(picture, name, self.shape, self.resizing)
        except errors.DataError as error:
            self.unreadable[index] = str(error)
            return torch.zeros(self.shape, dtype=torch.uint8)


class Pictures(Kind):
    """Pictures of 1 or 3 channels, or their pixels."""

    @property
    def expected(self) -> str:
        shape = ", ".join(map(str, self.data.facts["input_shape"]))
        return f"files or PIL images, or arrays of shape [number, {shape}]"

    @property
    def card(self) -> str:
        how = self.data.facts.get("resizing") or {}
        sides = "sides" if how.get("squash") else "shorter side"
        return f"a photo's {sides} resized to the shape's ({how or 'bilinear'}), its centre cropped"

    def own_samples(self, inputs: Sequence[Any], keep: Sequence[str]) -> NewSamples | None:
        if not (isinstance(inputs[0], str | Path) or is_picture(inputs[0])):
            return None
        pictures: list[Any] = []
        for picture in inputs:
            is_folder = isinstance(picture, str | Path) and Path(picture).is_dir()
            pictures += image_tree.images_below(Path(picture)) if is_folder else [picture]
        names = [str(picture) if isinstance(picture, str | Path) else f"picture {number}"
                 for number, picture in enumerate(pictures)]  # fmt: skip
        batcher, facts = self.data.batcher, self.data.facts
        if isinstance(batcher, ImageBatcher):
            batcher = replace(batcher, scale=PICTURE_SCALE)  # the data may store another range
        shape = tuple(facts["input_shape"])
        dataset = PictureFiles(pictures, names, shape, facts.get("resizing", {}))
        return NewSamples(dataset, names, batcher, unreadable=dataset.unreadable)

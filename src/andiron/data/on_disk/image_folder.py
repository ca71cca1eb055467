"""Your own images: a folder for each class."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import decoded_once, decoding, image_tree
from andiron.data import splits
from andiron.data.batcher import ImageBatcher
from andiron.data.dataset import Indices, RawBatch
from andiron.data.composed.fractions import Parts, TEST_SEED
from andiron.data.on_disk.image_tree import ImageTree
from andiron.data.splits import Splits
from andiron.data.on_disk.stored import StoredDataset
from andiron.ranges import Count, Proportion, Seed, Validation

MEAN, STD = (
    (0.485, 0.456, 0.406),
    (0.229, 0.224, 0.225),
)  # of ImageNet, which torchvision's weights were trained with
GREY_MEAN, GREY_STD = 0.449, 0.226  # their means over the channels


@dataclass(frozen=True, eq=False)
class ImageFolderDataset:
    """Image files by index, decoded when asked for; in worker processes, as many at a time as there are."""

    root: Path
    names: tuple[str, ...]
    targets: Int[Tensor, " size"]
    size: int
    channels: int

    def __len__(self) -> int:
        return len(self.names)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in their order.

        Raises: DataError naming the file that no image can be read from.
        """
        chosen = torch.as_tensor(indices)
        return RawBatch(
            torch.stack([self._decoded(index) for index in chosen.tolist()]), self.targets[chosen]
        )

    def subset(self, indices: Indices) -> "ImageFolderDataset":
        """The samples at `indices` as a data set of their own."""
        chosen = torch.as_tensor(indices)
        names = tuple(self.names[index] for index in chosen.tolist())
        return ImageFolderDataset(self.root, names, self.targets[chosen], self.size, self.channels)

    def _decoded(self, index: int) -> Tensor:
        try:
            return decoding.decode(
                self.root / self.names[index], size=self.size, channels=self.channels
            )
        except errors.DataError as error:
            raise errors.DataError(f"image {index}, counted from 0: {error}") from error


def image_folder(
    *,
    path: str,
    size: Count,
    channels: Literal[1, 3] = 3,
    valid: Validation,
    test: Proportion,
    split_seed: Seed,
    decoded: Literal["workers", "once"] = "workers",
    cache: str | None = None,
) -> Splits:
    """The images in `path`/<class>, at any depth, cut to `size` by `size` pixels as `decoding.decode` tells.

    Where there is a folder `path`/train, they are in `path`/<part>/<class>. Without a folder test/ a fraction `test` of each
    class is kept aside, always the same; without valid/ a fraction `valid` of each is held out of the rest.
    With `decoded="workers"` an image is decoded at every batch that asks for it; with `once` before the run, into a file in
    `cache`, by default `path`/.andiron, that runs with the same images then read from. The fingerprint is over names and
    sizes of the files, with `once` over their bytes too.
    Standardised by ImageNet's mean and deviation, as torchvision's trained networks expect it.
    Raises: DataError for a folder, class or part without images, and with `once` for a file that is no image.
    """
    root = Path(path).absolute()
    tree = image_tree.find(root)
    parts = _parts(tree, valid, test, split_seed)
    everything: ImageFolderDataset | StoredDataset
    if decoded == "once":
        folder = root / ".andiron" if cache is None else Path(cache).absolute()
        fingerprint = decoded_once.content_of(tree, folder)
        everything = decoded_once.dataset(tree, fingerprint, folder, size=size, channels=channels)
    else:
        fingerprint = _listing(tree)
        everything = ImageFolderDataset(root, tree.names, tree.targets, size, channels)
    train, held_out, kept_aside = (everything.subset(indices) for indices in parts)
    number = len(tree.class_names)
    return Splits(
        name=root.name,
        train=train,
        valid=held_out,
        test=kept_aside,
        batcher=ImageBatcher(MEAN, STD) if channels == 3 else ImageBatcher(GREY_MEAN, GREY_STD),
        facts={
            "input_shape": (channels, size, size),
            "num_classes": number,
            "class_names": list(tree.class_names),
            "class_counts": torch.bincount(tree.targets[parts.train], minlength=number).tolist(),
        },
        fingerprint=fingerprint,
        validates_on_test=valid == "test",
    )


def _parts(tree: ImageTree, valid: Validation, test: float, split_seed: int) -> Parts:
    """The indices of each part: those of its folder, or a fraction of the images that there are to train on."""
    folders = {
        part: torch.arange(places.start, places.stop) for part, places in tree.ranges.items()
    }
    rest = folders["train" if "train" in folders else ""]
    if "test" in folders:
        kept_aside = folders["test"]
    else:
        rest, kept_aside = _cut(tree, rest, "test", test, TEST_SEED)
    if valid == "test":
        return Parts(rest, kept_aside, kept_aside)
    if "valid" in folders:
        return Parts(rest, folders["valid"], kept_aside)
    rest, held_out = _cut(tree, rest, "valid", float(valid), split_seed)
    return Parts(rest, held_out, kept_aside)


def _cut(
    tree: ImageTree, indices: Tensor, option: str, fraction: float, seed: int
) -> tuple[Tensor, Tensor]:
    kept, held = splits.stratified_split(tree.targets[indices], fraction, seed)
    if not len(kept) or not len(held):
        raise errors.DataError(
            f"data.{option}={fraction}: of {len(indices)} images, {len(kept)} would be left and {len(held)} make up the part; "
            f"choose a fraction that leaves both some, or make a folder {tree.root / option}"
        )
    return indices[kept], indices[held]


def _listing(tree: ImageTree) -> str:
    digest = hashlib.sha256()
    for name in tree.names:
        digest.update(f"{name}\0{(tree.root / name).stat().st_size}\n".encode())
    return digest.hexdigest()

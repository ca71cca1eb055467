"""Pictures with masks, which have a class for each pixel."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Literal

import torch
from jaxtyping import Int16
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Dataset, Indices, RawBatch
from andiron.data.on_disk import (
    image_cache, image_decoding, image_folder, image_labels, image_tree,
)  # fmt: skip
from andiron.data.on_disk.image_tree import ImageTree
from andiron.data.splitting import fingerprint, splits
from andiron.data.splitting.splits import Splits
from andiron.outputs import IGNORED
from andiron.plain import readable
from andiron.ranges import Count, Index, Proportion, Resizing, Seed, SetName, Validation
from andiron.recording import keep_arguments

NO_CLASS = -1
MASKS = ("mask", "masks", "mask_path", "label", "annotation", "segmentation")  # columns of tables
LARGEST = 2**16 - 1  # number in a mask
MOST_CLASSES = 256  # found in masks: more are numbers of objects, or of distances
SQUASHED = Resizing(squash=True)  # whole pictures, as masks are
log = logging.getLogger("andiron")


@dataclass(frozen=True, eq=False)
class MaskedPictures:
    """Picture files and their masks by index, decoded batch by batch, in worker processes too."""

    root: Path
    names: tuple[str, ...]
    masks: tuple[str, ...]
    shape: tuple[int, int, int]
    is_resized: bool
    classes: Int16[Tensor, " numbers"]  # by number in a mask; or IGNORED, or NO_CLASS

    def __len__(self) -> int:
        return len(self.names)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in this order: pictures, and a class or IGNORED of each pixel.

        Raises: DataError naming the file that cannot be read, or does not fit.
        """
        chosen = torch.as_tensor(indices).tolist()
        pictures = [self._picture(index) for index in chosen]
        return RawBatch(torch.stack(pictures), torch.stack([self._mask(index) for index in chosen]))

    def sample_name(self, index: int) -> str:
        """The picture of a sample, below the folder."""
        return self.names[index]

    def subset(self, indices: Indices) -> "MaskedPictures":
        """A data set of the samples at `indices`."""
        chosen = torch.as_tensor(indices).tolist()
        names, masks = (
            tuple(files[index] for index in chosen) for files in (self.names, self.masks)
        )
        return replace(self, names=names, masks=masks)

    def numbers(self, index: int) -> list[int]:
        """The different numbers in a mask. Raises: DataError as `__getitems__`."""
        self._checked_size(index)
        return sorted({*image_decoding.of_mask(self.root / self.masks[index]).flatten().tolist()})

    def _checked_size(self, index: int) -> tuple[int, int]:
        """The rows and columns of a picture, which its mask has too."""
        path = self.root / self.masks[index]
        own, size = map(image_decoding.size_of, (path, self.root / self.names[index]))
        if own != size:
            raise errors.DataError(
                f"{path}: has {_in_words(own)} pixels, and its picture {self.names[index]} has "
                f"{_in_words(size)}; give the mask of this picture, in its size"
            )
        return size

    def _picture(self, index: int) -> Tensor:
        path, size = self.root / self.names[index], self._checked_size(index)
        if not self.is_resized and size != self.shape[1:]:
            raise errors.DataError(
                f"{path}: has {_in_words(size)} pixels, and the first picture has "
                f"{_in_words(self.shape[1:])}; resize all to a square: data.size={max(size)}"
            )
        return image_decoding.of_file(path, self.shape, SQUASHED)

    def _mask(self, index: int) -> Int16[Tensor, "height width"]:
        path = self.root / self.masks[index]
        numbers = image_decoding.of_mask(path, self.shape[1:])
        within = numbers.clamp(0, LARGEST)
        classes = self.classes[within]
        is_wrong = (classes == NO_CLASS) | (numbers != within)
        if is_wrong.any():
            known = (self.classes != NO_CLASS).nonzero().flatten().tolist()
            wrong = sorted({*numbers[is_wrong].tolist()})
            raise errors.DataError(
                f"{path}: has the number {readable.joined(wrong)}, "
                f"which is no class; there are {readable.joined(known)}: correct the mask, or give "
                "each number a name: 'data.classes={0: background, ...}'"
            )
        return classes


@keep_arguments
def image_masks(
    *,
    path: str,
    images: str = "images",
    masks: str = "masks",
    suffix: str = "",
    table: str | None = None,
    classes: Sequence[str] | dict[str | int, str] | None = None,
    ignored: Index | None = 255,
    size: Count | None = None,
    channels: Literal[1, 3] = 3,
    valid: Validation,
    test: Proportion,
    split_seed: Seed,
    valid_sets: dict[SetName, str] | None = None,
) -> Splits:
    """The pictures in `path`/`images`, at any depth, each with its mask in `path`/`masks`.

    The mask of a.jpg is a.png, or another format without loss; with a `suffix` a<suffix>.png. If
    there is a folder `path`/train, or another of that meaning, the two folders are in each part's,
    or the parts' folders in the two; else a fraction `test` of the pictures is held out, and a
    fraction `valid` of the rest. A `table` in `path` has pairs instead, in columns image and mask.
    A mask has a number for each pixel, in 1, 8 or 16 bits, or as the index of a colour of its
    palette. `classes` are the names of 0, 1, ..., or names by number; by default all numbers in the
    masks are classes, which are read for that before the run. Pixels with the number `ignored`
    count neither in losses nor in metrics, unless it is named or the only number beside 0.
    Pictures have one size, and keep it; with a `size` both their sides are resized to it, and the
    masks by the nearest pixel: metrics are of the resized masks.
    The fingerprint covers the names and sizes of all files. `valid_sets` are folders of further
    validation sets by name. Normalised as by `image_folder`.
    Raises: DataError for a picture without a mask, or a mask of another size or with other numbers.
    """

    def read(folder: Path) -> tuple[ImageTree, MaskedPictures]:
        tree, files = _pairs(folder, images, masks, suffix, table)
        rows, columns = (size, size) if size else image_decoding.size_of(folder / tree.names[0])
        shape = channels, rows, columns
        return tree, MaskedPictures(folder, tree.names, files, shape, size is not None, by_number)

    def read_set(folder: str) -> tuple[Dataset, str]:
        _, further = read(Path(folder).absolute())
        return replace(further, classes=dataset.classes), _checksum(further)

    by_number = torch.full((LARGEST + 1,), NO_CLASS, dtype=torch.int16)
    tree, dataset = read(Path(path).absolute())
    names = _names(classes, ignored, dataset)
    if ignored is not None and ignored not in names:
        by_number[ignored] = IGNORED
    by_number[[*names]] = torch.arange(len(names), dtype=torch.int16)
    facts = {
        "input_shape": dataset.shape, "target_shape": dataset.shape[1:], "num_classes": len(names),
        "class_names": [*names.values()], "class_numbers": [*names], "resizing": {**SQUASHED},
    }  # fmt: skip
    division = image_folder.division_of(tree, None)
    of_rows = partial(
        splits.of_parts,
        dataset.subset,
        name=tree.root.name,
        batcher=image_folder.BATCHERS[channels],
        facts=facts,
        fingerprint=_checksum(dataset),
        evaluation_batch_size=1,  # as many as in training: a picture has many targets
        division=division,
    )
    parts = image_folder.parts_of(tree, division, valid, test, split_seed)
    return splits.with_sets(splits.of_rows(of_rows, parts), valid_sets, read_set)


def _names(
    classes: Sequence[str] | Mapping[str | int, str] | None,
    ignored: int | None,
    pictures: MaskedPictures,
) -> dict[int, str]:
    """The name of each class by its number in the masks, ascending.

    Raises: DataError if there are fewer than two, or the masks have too many.
    """
    if isinstance(classes, Mapping):
        names = {int(number): classes[number] for number in sorted(classes, key=int)}
    elif classes is not None:
        names = dict(enumerate(classes))
    else:
        log.info(
            "%s: reading all %d masks for their classes; data.classes gives them without",
            pictures.root, len(pictures),
        )  # fmt: skip
        numbers = set[int]().union(*image_cache.in_threads(pictures.numbers, range(len(pictures))))
        if len(numbers - {ignored}) > 1:
            numbers -= {ignored}
        names = {number: str(number) for number in sorted(numbers)}
    if not 1 < len(names) <= MOST_CLASSES or not 0 <= min(names) <= max(names) <= LARGEST:
        raise errors.DataError(
            f"{pictures.root}: the classes are {readable.joined([*names])}; there should be 2 to "
            f"{MOST_CLASSES}, from 0 to {LARGEST}: name them by their numbers in the masks, "
            "'data.classes={0: background, 1: cell}'"
        )
    return names


def _pairs(
    root: Path, images: str, masks: str, suffix: str, table: str | None
) -> tuple[ImageTree, tuple[str, ...]]:
    """The pictures below `root` by part, and the mask of each."""
    if table is not None:
        parts = {"": _in_table(root, table)}
    elif outer := image_tree.parts_below(root):
        parts = {
            part: _beside(root, f"{folder}/{images}", f"{folder}/{masks}", suffix)
            for part, folder in outer.items()
        }
    else:
        inner = image_tree.parts_below(root / images) if (root / images).is_dir() else {}
        parts = {
            part: _beside(root, f"{images}/{folder}", f"{masks}/{folder}", suffix)
            for part, folder in inner.items()
        } or {"": _beside(root, images, masks, suffix)}
    pairs: dict[str, str] = {}
    indices = {}
    for part, of_part in parts.items():
        indices[part] = torch.arange(len(pairs), len(pairs) + len(of_part))
        pairs |= of_part
    targets = torch.zeros(len(pairs), dtype=torch.long)  # divided at random
    return ImageTree(root, tuple(pairs), targets, (), indices), tuple(pairs.values())


def _beside(root: Path, images: str, masks: str, suffix: str) -> dict[str, str]:
    """The mask of each picture of a folder, by their names.

    Raises: DataError for a folder without pictures, or a picture without a mask.
    """
    pictures, masks_by_stem = (
        {PurePath(name).relative_to(folder).with_suffix("").as_posix(): name
         for name in sorted(image_tree.files_in(root, root / folder, []))}
        for folder in (images, masks)
    )  # fmt: skip
    if images == masks:
        pictures = {stem: name for stem, name in pictures.items() if not stem.endswith(suffix)}
    lacking = [name for stem, name in pictures.items() if stem + suffix not in masks_by_stem]
    if lacking or not pictures:
        problem = f"{len(lacking)} of {len(pictures)} pictures have no mask"
        raise errors.DataError(
            f"{root / images}: {problem}{lacking and f', such as {lacking[0]}' or ''}; the mask of "
            f"a.jpg there is {root / masks / 'a'}{suffix}.png: add it, or set data.images, "
            "data.masks and data.suffix to the names that they have"
        )
    return {name: masks_by_stem[stem + suffix] for stem, name in pictures.items()}


def _in_table(root: Path, table: str) -> dict[str, str]:
    """The pairs of a table, whose paths are from `root`."""
    pairs: dict[str, str] = {}
    names = {"image": image_labels.FILES, "mask": MASKS}
    for line, pair, _ in image_labels.rows_of(root / table, names):
        image, mask = pair
        if missing := [name for name in pair if image in pairs or not (root / name).is_file()]:
            raise errors.DataError(
                f"{root / table}, line {line}: {missing[0]!r} should be a file below {root}, and a "
                "picture named once; correct the line"
            )
        pairs[image] = mask
    return pairs


def _checksum(pictures: MaskedPictures) -> str:
    """SHA-256 over the names and sizes of the files, to compare data sets."""
    return fingerprint.of_texts(
        f"{name}\0{(pictures.root / name).stat().st_size}\n"
        for name in (*pictures.names, *pictures.masks)
    )


def _in_words(size: Sequence[int]) -> str:
    rows, columns = size
    return f"{columns}x{rows}"

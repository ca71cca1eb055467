"""Pictures with masks, which have a class for each pixel."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

import torch
from jaxtyping import Int16
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Dataset, Indices, RawBatch
from andiron.data.on_disk import (
    image_decoding, image_folder, image_labels, image_tree,
)  # fmt: skip
from andiron.data.on_disk.image_tree import ImageTree
from andiron.data.splitting import splits
from andiron.data.splitting.splits import Splits
from andiron.outputs import IGNORED
from andiron.plain import readable
from andiron.ranges import (
    Count, Index, Proportion, Resizing, Seed, SetFiles, SplitOption, Validation,
)  # fmt: skip
from andiron.recording import keep_arguments
from andiron_lab.masks import mask_files

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
    pairs: tuple[tuple[str, str], ...]  # a picture and its mask, below the root
    shape: tuple[int, int, int]
    is_resized: bool
    classes: Int16[Tensor, " numbers"]  # by number in a mask; or IGNORED, or NO_CLASS as the last

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in this order: pictures, and a class or IGNORED of each pixel.

        Raises: DataError naming the file that cannot be read, or does not fit.
        """
        samples = [self._sample(index) for index in torch.as_tensor(indices).tolist()]
        return RawBatch(*map(torch.stack, zip(*samples, strict=True)))

    def sample_name(self, index: int) -> str:
        """The picture of a sample, below the folder."""
        return self.pairs[index][0]

    def subset(self, indices: Indices) -> "MaskedPictures":
        """A data set of the samples at `indices`."""
        chosen = torch.as_tensor(indices).tolist()
        return replace(self, pairs=tuple(self.pairs[index] for index in chosen))

    def checksum(self) -> str:
        """SHA-256 over the names and sizes of the files, to compare data sets."""
        pictures, masks = zip(*self.pairs, strict=True)
        return image_decoding.of_sizes(self.root, [*pictures, *masks])

    def numbers(self, index: int) -> list[int]:
        """The different numbers in a mask. Raises: DataError as `__getitems__`."""
        _, mask = self._checked(index)
        return torch.unique(mask_files.read(mask)).tolist()

    def _checked(self, index: int) -> list[Path]:
        """The files of a picture and its mask, which have one size."""
        files = [self.root / name for name in self.pairs[index]]
        size, of_mask = map(mask_files.size_of, files)
        wanted = size if self.is_resized else self.shape[1:]
        if not size == of_mask == wanted:
            shown = [f"{columns}x{rows}" for rows, columns in (size, of_mask, wanted)]
            raise errors.DataError(
                f"{files[0]}: has {shown[0]} pixels, its mask {files[1]} has {shown[1]}, and the "
                f"size of the data is {shown[2]}; give each picture a mask of its size, and resize "
                f"pictures of several sizes to a square: data.size={max(size)}"
            )
        return files

    def _sample(self, index: int) -> tuple[Tensor, Int16[Tensor, "height width"]]:
        picture, mask = self._checked(index)
        numbers = mask_files.read(mask, self.shape[1:])
        classes = self.classes[numbers.clamp(-1, LARGEST + 1)]
        if len(wrong := torch.unique(numbers[classes == NO_CLASS])):
            known = (self.classes != NO_CLASS).nonzero().flatten().tolist()
            raise errors.DataError(
                f"{mask}: has the number {readable.joined(wrong.tolist())}, "
                f"which is no class; there are {readable.joined(known)}: correct the mask, or give "
                "each number a name: 'data.classes={0: background, ...}'"
            )
        return image_decoding.of_file(picture, self.shape, SQUASHED), classes


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
    split: SplitOption | None = None,
    valid_sets: SetFiles = None,
) -> Splits:
    """The pictures in `path`/`images`, at any depth, each with its mask in `path`/`masks`.

    The mask of a.jpg is a.png, or another format without loss; with a `suffix` a<suffix>.png. If
    there is a folder `path`/train, or another of that meaning, the two folders are in each part's,
    or the parts' folders in the two; else a fraction `test` of the pictures is held out, and a
    fraction `valid` of the rest. `split` divides them in another way: see `Division`; its column is
    a regular expression, as of `image_folder`. A `table` in `path` has pairs instead, in columns
    image and mask.
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
        tree, pairs = _pairs(folder, images, masks, suffix, table)
        rows, columns = (size, size) if size else mask_files.size_of(folder / tree.names[0])
        shape = channels, rows, columns
        return tree, MaskedPictures(folder, pairs, shape, size is not None, by_number)

    def read_set(folder: str) -> tuple[Dataset, str]:
        _, further = read(Path(folder).absolute())
        return replace(further, classes=dataset.classes), further.checksum()

    by_number = torch.full((LARGEST + 2,), NO_CLASS, dtype=torch.int16)
    tree, dataset = read(Path(path).absolute())
    names = _names(classes, ignored, dataset)
    if ignored is not None and ignored not in names:
        by_number[ignored] = IGNORED
    by_number[[*names]] = torch.arange(len(names), dtype=torch.int16)
    facts = {
        "input_shape": dataset.shape, "target_shape": dataset.shape[1:], "num_classes": len(names),
        "class_names": [*names.values()], "class_numbers": [*names], "resizing": {**SQUASHED},
    }  # fmt: skip
    made = image_folder.divided(
        tree, split, valid, test, split_seed,
        subset=dataset.subset, facts=facts, fingerprint=dataset.checksum(),
        evaluation_batch_size=1,  # as many as in training: a picture has many targets
    )  # fmt: skip
    return splits.with_sets(made, valid_sets, read_set)


def _names(
    classes: Sequence[str] | Mapping[str | int, str] | None,
    ignored: int | None,
    pictures: MaskedPictures,
) -> dict[int, str]:
    """The name of each class by its number in the masks, ascending.

    Raises: DataError if there are fewer than two, or the masks have too many.
    """
    if isinstance(classes, Mapping):
        names = dict(sorted((int(number), name) for number, name in classes.items()))
    elif classes is not None:
        names = dict(enumerate(classes))
    else:
        log.info(
            "%s: reading all %d masks for their classes; data.classes gives them without",
            pictures.root, len(pictures),
        )  # fmt: skip
        every = image_decoding.in_threads(pictures.numbers, range(len(pictures)))
        numbers = set[int]().union(*every)
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
) -> tuple[ImageTree, tuple[tuple[str, str], ...]]:
    """The pictures below `root` by part, each with its mask."""
    if table is not None:
        parts = {"": _in_table(root, table)}
    else:
        folders = {"": (images, masks)}
        if outer := image_tree.parts_below(root):
            folders = {part: (f"{at}/{images}", f"{at}/{masks}") for part, at in outer.items()}
        elif (root / images).is_dir() and (inner := image_tree.parts_below(root / images)):
            folders = {part: (f"{images}/{at}", f"{masks}/{at}") for part, at in inner.items()}
        parts = {part: _beside(root, *both, suffix) for part, both in folders.items()}
    pairs: dict[str, str] = {}
    indices = {}
    for part, of_part in parts.items():
        indices[part] = torch.arange(len(pairs), len(pairs) + len(of_part))
        pairs |= of_part
    targets = torch.zeros(len(pairs), dtype=torch.long)  # divided at random
    return ImageTree(root, tuple(pairs), targets, (), indices), tuple(pairs.items())


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
        problem = f"has {len(pictures)} pictures, {len(lacking)} without a mask"
        raise errors.DataError(
            f"{root / images}: {problem}{lacking and f', such as {lacking[0]}' or ''}; the mask of "
            f"a.jpg there is {root / masks / 'a'}{suffix}.png: add it, or set data.images, "
            "data.masks and data.suffix to the names that they have, or list the pairs in "
            "data.table=pairs.csv"
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

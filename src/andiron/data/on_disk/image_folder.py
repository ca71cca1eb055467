"""Images in a folder for each class."""

from __future__ import annotations  # help() shows them as they stand

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from torch import Tensor

from andiron import errors
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import Dataset
from andiron.data.on_disk import image_decoding, image_tree, train_valid_test
from andiron.data.on_disk.image_decoding import ImageFolderDataset
from andiron.data.on_disk.stored import StoredDataset
from andiron.data.splitting import fingerprint, splits
from andiron.data.splitting.divided_rows import Division, Option, columns_of
from andiron.data.splitting.splits import Splits
from andiron.plain import readable, wings
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import (
    Count, Index, Proportion, Resizing, ResizingOption, Seed, SetFiles, SplitOption,
    Validation,
)  # fmt: skip
from andiron.recording import keep_arguments

log = logging.getLogger("andiron")
# ImageNet's, as torchvision's weights expect; for grey images the means over channels
BATCHERS = {
    3: ImageBatcher((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    1: ImageBatcher(0.449, 0.226),
}


@keep_arguments
def image_folder(
    *,
    path: str,
    size: Count | None = None,
    channels: Literal[1, 3] = 3,
    resizing: ResizingOption | None = None,
    valid: Validation,
    test: Proportion,
    split_seed: Seed,
    split: SplitOption | None = None,
    decoded: Literal["workers", "once"] = "workers",
    cache: str | None = None,
    scan: bool = False,
    max_unreadable: Index = 0,
    valid_sets: SetFiles = None,
) -> Splits:
    """The images in `path`/<class>, at any depth, resized and cropped to `size` x `size` pixels.

    Without `size` they have 224 x 224; without `resizing` the shorter side is resized to `size`.
    If there is a folder `path`/train, or another of that meaning such as Training or seg_train,
    they are in `path`/<part>/<class>. A folder without classes may have a table of file names and
    labels, labels.csv. Without a folder test/, a
    fraction `test` of each class is held out, always the same; without valid/, a fraction `valid`
    of each class of the rest. `split` divides the images (see `Division`), in order by the names of
    each class; its column is of the table of labels, or a regular expression of the path from the
    root: the value is its first group, else the whole match.
    With `decoded="workers"` an image is decoded for every batch that has it; with `once`, by the
    lab, before the run, into a file in `cache`, by default `path`/.andiron. The fingerprint covers
    the names and sizes of the files, with `once` their bytes too.
    With `scan` or `once` all unreadable images are reported before the run; up to `max_unreadable`
    of them, which implies a scan, are skipped and named in the facts.
    `valid_sets` are folders of further validation sets by name, each with folders of some classes.
    Normalised by ImageNet's mean and standard deviation, as torchvision's trained networks expect.
    Raises: DataError for a folder, class or part without images, and with `once` or `scan` for
    files that are not images.
    """
    size = size or 224
    shape = size, channels, cast(Resizing, resizing or {})
    is_scanned = scan or max_unreadable > 0

    def read(tree: image_tree.ImageTree) -> _Images:
        return _read(tree, shape, decoded, cache, is_scanned, max_unreadable)

    def read_set(folder: str) -> tuple[Dataset, str]:
        further = read(image_tree.find_set(Path(folder).absolute(), whole.tree.class_names))
        return further.dataset.subset(further.tree.indices[""]), further.checksum

    whole = read(image_tree.find(Path(path).absolute()))
    _warn_of_copies(whole.tree)
    names = [*whole.tree.class_names]
    facts: Plain = {"input_shape": (channels, size, size), "num_classes": len(names)}
    facts |= {"class_names": names} | ({"resizing": resizing} if resizing else {})
    if whole.skipped:
        facts["unreadable_files"] = whole.skipped
    made = divided(
        whole.tree, split, valid, test, split_seed,
        subset=whole.dataset.subset, facts=facts, fingerprint=whole.checksum,
    )  # fmt: skip
    return splits.with_sets(made, valid_sets, read_set)


@dataclass(frozen=True)
class _Images:
    """The images of a tree, whose indices are of the readable ones, and the names of the others."""

    tree: image_tree.ImageTree
    dataset: ImageFolderDataset | StoredDataset
    checksum: str  # of the readable ones
    skipped: list[str]


def _read(
    tree: image_tree.ImageTree, shape: tuple[int, int, Resizing], decoded: str, cache: str | None,
    is_scanned: bool, max_unreadable: int,
) -> _Images:  # fmt: skip
    """The images of a tree; see `image_folder`."""
    dataset: Any = ImageFolderDataset(tree.root, tree.names, tree.targets, *shape)
    images = dataset
    if decoded == "once":
        lab = wings.required("data.decoded_images", "data.decoded=once", errors.DataError)
        dataset, unreadable, checksum = lab.of_tree(images, tree.labels, cache)
    else:
        unreadable = _unreadable(images) if is_scanned else {}
        names = [name for name in tree.names if name not in unreadable]
        checksum = image_decoding.of_sizes(tree.root, names)
    if tree.labels:
        labels = (f"{name}\0{label}\n" for name, label in tree.labels.items())
        checksum = fingerprint.of_texts([checksum, *labels])
    if unreadable:
        _check_number(images, unreadable, max_unreadable)
        tree = tree.without(unreadable)
    return _Images(tree, dataset, checksum, sorted(unreadable))


def _unreadable(images: ImageFolderDataset) -> dict[str, str]:
    """Why files cannot be read as an image, by name; decodes all of them."""
    log.info("%s: decoding all %d images, to find unreadable ones", images.root, len(images))
    made = image_decoding.all_decoded(images)
    return {name: problem for name, problem in made if isinstance(problem, str)}


def _check_number(images: ImageFolderDataset, unreadable: Mapping[str, str], most: int) -> None:
    """Logs the unreadable files.

    Raises: DataError listing them if there are more than `most`.
    """
    problem = f"{images.root}: {len(unreadable)} of {len(images)} images cannot be read"
    listed = readable.listed([f"{name}: {why}" for name, why in unreadable.items()])
    if len(unreadable) > most:
        allowed = f"; data.max_unreadable={most} skips fewer" if most else ""
        raise errors.DataError(
            f"{problem}{allowed}:\n{listed}\nreplace or remove them, or skip them with "
            f"data.max_unreadable={len(unreadable)}"
        )
    log.warning("%s, and are skipped:\n%s", problem, readable.printable(listed))


def _warn_of_copies(tree: image_tree.ImageTree) -> None:
    """Warns of held-out images that are training images too; of many, looks at 32 first."""
    training, *others = ([tree.root / tree.names[row] for row in rows.tolist()]
                         for rows in tree.indices.values())  # fmt: skip
    for part, images in zip([*tree.indices][1:], others):
        if fingerprint.copies(images[:: -(-len(images) // 32)], training):
            copies = fingerprint.copies(images, training)
            log.warning(
                "%s: %d of %d images are also in training, such as %s: a result on them tells "
                "nothing of new ones; remove them", tree.root / part, len(copies), len(images),
                readable.printable(copies[0].name),
            )  # fmt: skip


def divided(
    tree: image_tree.ImageTree, split: Option, valid: Validation, test: float, split_seed: int,
    *, subset: Callable[[Tensor], Dataset], facts: Named, **described: Any,
) -> Splits:  # fmt: skip
    """The images of a tree: each part from its folder, or a fraction of train as `split` says.

    `subset` gives the data set of some rows; `described` are further fields of `Splits`.
    Raises: DataError as `Division.parts`, and for a group that is in two folders of parts.
    """
    division = Division(
        len(tree.names), split, tree.targets if tree.class_names else None,
        [value for column in columns_of(split) for value in tree.values(column)],
        is_by_class=True, row_name=lambda row: str(tree.root / tree.names[row]),
    )  # fmt: skip
    every, *_ = tree.indices.values()  # of train, or of all
    division.check_apart({
        str(tree.root / part): (division.values[row] for row in rows.tolist())
        for part, rows in tree.indices.items()
    })  # fmt: skip
    if split is None and len(tree.indices) == 1:
        train_valid_test.warn_of_columns(str(tree.root), tree.columns)
    own = {"train": every, **tree.indices}
    parts = division.parts(valid=valid, test=test, split_seed=split_seed, own=own)
    make = partial(
        splits.of_parts, subset, name=tree.root.name, batcher=BATCHERS[facts["input_shape"][0]],
        facts=facts, division=division, **described,
    )  # fmt: skip
    return splits.of_rows(make, parts)

"""The images in a folder: their classes, and their parts of the data set."""

import logging
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Classes

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
PARTS = ("train", "valid", "test")
log = logging.getLogger("andiron")


@dataclass(frozen=True, eq=False)
class ImageTree:
    """The images below `root`, ordered by part, class and name; paths use forward slashes."""

    root: Path
    names: tuple[str, ...]  # paths from the root
    targets: Classes
    class_names: tuple[str, ...]
    indices: Mapping[str, Tensor]  # of each part that has a folder; without parts, of ""

    def without(self, names: Container[str]) -> "ImageTree":
        """The same with the indices of all but these images.

        Raises: DataError if a class would be empty in a part.
        """
        is_kept = torch.tensor([name not in names for name in self.names])
        indices = {part: rows[is_kept[rows]] for part, rows in self.indices.items()}
        for part, rows in self.indices.items():
            left = self.targets[indices[part]].tolist()
            for target in sorted({*self.targets[rows].tolist()} - {*left}):
                raise errors.DataError(
                    f"{self.root / part / self.class_names[target]}: a class without an image "
                    "that can be read; put some there, or remove it"
                )
        return replace(self, indices=indices)


def find(root: Path) -> ImageTree:
    """The images below `root`/<class>, or `root`/<part>/<class> if there is `root`/train.

    Names that begin with a dot are ignored, and files with other suffixes, which are logged.
    Raises: DataError if the folder is missing, has fewer than two classes, or one without images.
    """
    if not (root / "train").is_dir():
        return _tree(root, {"": _class_names(root)})
    strange = [name for name in _folders(root) if name not in PARTS]
    if strange:
        raise errors.DataError(
            f"{root}: has a folder {strange[0]!r} beside train/; "
            f"folders there are {', '.join(PARTS)}: rename or remove it"
        )
    parts = {part: _class_names(root / part) for part in PARTS if (root / part).is_dir()}
    for part, names in parts.items():
        _check_known(root / part, names, parts["train"], "train/ has no such class")
    return _tree(root, parts)


def find_set(root: Path, class_names: Sequence[str]) -> ImageTree:
    """The images below `root`/<class>, of some or all of these classes.

    Raises: DataError as `find`, and for another class.
    """
    names = _class_names(root)
    _check_known(root, names, class_names, "the training data have no such class")
    return _tree(root, {"": names}, class_names)


def images_below(folder: Path) -> list[Path]:
    """The images in a folder, at any depth and in the order of their names.

    Raises: DataError if there is none.
    """
    images = sorted(folder / name for name in _files(folder, folder, []))
    if not images:
        raise errors.DataError(f"{folder}: has no images ({', '.join(SUFFIXES)})")
    return images


def _check_known(folder: Path, names: Sequence[str], known: Sequence[str], why: str) -> None:
    for name in names:
        if name not in known:
            hint = errors.nearest(name, known) or "; put images of it there"
            raise errors.DataError(f"{folder / name}: {why}{hint}")


def _class_names(folder: Path) -> list[str]:
    names = _folders(folder)
    if not names:
        raise errors.DataError(
            f"{folder}: has no folder of images; put the images of each class into one, "
            f"such as {folder / 'cat' / '1.png'}"
        )
    return names


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise errors.DataError(
            f"{folder}: no such folder; set data.path, or data.valid_sets, to one with a folder of "
            "images for each class"
        )
    return sorted(
        entry.name
        for entry in os.scandir(folder)
        if entry.is_dir() and not entry.name.startswith(".")
    )


def _tree(
    root: Path, parts: Mapping[str, list[str]], class_names: Sequence[str] | None = None
) -> ImageTree:
    """The images of each part, whose folders are listed; by default the first has all classes."""
    class_names = class_names or next(iter(parts.values()))
    if len(class_names) < 2:
        raise errors.DataError(
            f"{root}: has one class, {class_names[0]!r}; there is nothing to classify: add another"
        )
    names: list[str] = []
    targets: list[int] = []
    indices = {}
    ignored: list[str] = []
    for part, of_part in parts.items():
        begin = len(names)
        for class_name in of_part:
            paths = sorted(_files(root, root / part / class_name, ignored))
            if not paths:
                raise errors.DataError(
                    f"{root / part / class_name}: a class without images "
                    f"({', '.join(SUFFIXES)}); put some there, or remove it"
                )
            names += paths
            targets += [class_names.index(class_name)] * len(paths)
        indices[part] = torch.arange(begin, len(names))
    if ignored:
        message = "%s: ignored %d files that are not images, such as %s"
        if len(ignored) == 1:
            message = "%s: ignored %d file that is not an image: %s"
        log.info(message, root, len(ignored), min(ignored))
    return ImageTree(root, tuple(names), torch.tensor(targets), tuple(class_names), indices)


def _files(root: Path, folder: Path, ignored: list[str]) -> Iterator[str]:
    """The images in `folder`, as paths from the root; other files are added to `ignored`."""
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in files:
            name = Path(parent, file).relative_to(root).as_posix()
            if file.startswith("."):
                continue
            if file.lower().endswith(SUFFIXES):
                yield name
            else:
                ignored.append(name)

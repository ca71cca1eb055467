"""The images in a folder: their classes, and their parts of the data set.

Classes are folders, or stand in a table beside the pictures, with the name and the label of each.
"""

import logging
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Classes
from andiron.data.on_disk import image_labels
from andiron.data.on_disk.train_valid_test import OTHERS, PARTS, part_of, values_in
from andiron.progress import watched
from andiron.plain.readable import joined

SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm",
    ".pbm", ".pnm", ".avif", ".jp2", ".j2k",
)  # fmt: skip
# hidden folders, and those that archives, NAS boxes and file systems add
OF_SYSTEM = re.compile(r"\..*|__MACOSX|@eaDir|\$RECYCLE\.BIN|System Volume Information|lost\+found")
ImagesOf = dict[str, list[str]]  # by class
log = logging.getLogger("andiron")


@dataclass(frozen=True, eq=False)
class ImageTree:
    """The images below `root`, ordered by part, class and name; paths use forward slashes."""

    root: Path
    names: tuple[str, ...]  # paths from the root
    targets: Classes
    class_names: tuple[str, ...]
    indices: Mapping[str, Tensor]  # of each part that has a folder; without parts, of ""
    labels: Mapping[str, str] = field(default_factory=dict)  # by name, if a table has them
    cells: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of the table, by name

    @property
    def columns(self) -> dict[str, list[str]]:
        """The cells of every image by the columns of the table of labels, sorted."""
        names = sorted({*chain.from_iterable(self.cells.values())})
        return {name: [self.cells.get(path, {}).get(name, "") for path in self.names]
                for name in names}  # fmt: skip

    def values(self, column: str) -> list[str]:
        """The cell of every image in a column of the table of labels, else what is in its path.

        Raises: DataError as `values_in`.
        """
        columns, key = self.columns, image_labels.column_name(column)
        return columns[key] if key in columns else values_in(self.names, column, [*columns])

    def without(self, names: Container[str]) -> "ImageTree":
        """The tree with the indices of all but these images.

        Raises: DataError if a class would be empty in a part.
        """
        is_kept = torch.tensor([name not in names for name in self.names])
        indices = {part: rows[is_kept[rows]] for part, rows in self.indices.items()}
        for part, rows in self.indices.items():
            left = self.targets[indices[part]].tolist()
            for target in sorted({*self.targets[rows].tolist()} - {*left}):
                raise errors.DataError(
                    f"{self.root / part}: class {self.class_names[target]!r} has no image that can "
                    "be read; put some there, or remove it"
                )
        return replace(self, indices=indices)


def find(root: Path) -> ImageTree:
    """The images below `root`/<class>, or `root`/<part>/<class> if there is a training folder.

    Folders of parts are named train, valid and test, or as `part_of` reads them. A folder
    without classes may have a table of labels. Names that begin with a dot are ignored, and files
    with other suffixes, which are logged.
    Raises: DataError if the folder is missing, has fewer than two classes, or one without images.
    """
    return _tree(root, parts_below(root) or {"": ""})


def find_set(root: Path, class_names: Sequence[str]) -> ImageTree:
    """The images below `root`/<class>, of some or all of these classes.

    Raises: DataError as `find`, and for another class.
    """
    return _tree(root, {"": ""}, class_names)


def images_below(folder: Path) -> list[Path]:
    """The images in a folder, at any depth and in the order of their names.

    Raises: DataError if there is none.
    """
    ignored = list[str]()
    images = sorted(folder / name for name in files_in(folder, folder, ignored))
    _warn_of_ignored(folder, ignored)
    if not images:
        raise errors.DataError(f"{folder}: has no images ({', '.join(SUFFIXES)})")
    return images


def _warn_of_ignored(root: Path, ignored: Sequence[str]) -> None:
    """Logs the number of the files, and one of each suffix."""
    if ignored:
        shown = {Path(name).suffix.lower(): name for name in sorted(ignored, reverse=True)}
        what = "%s: ignored files that are not images: %d, such as %s"
        log.warning(what, root, len(ignored), joined(sorted(shown.values())))


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise errors.DataError(
            f"{folder}: no such folder; set data.path, or data.valid_sets, to one with a folder of "
            "images for each class"
        )
    return sorted(
        entry.name
        for entry in os.scandir(folder)
        if entry.is_dir() and not _is_left_out(entry.path)
    )


def _is_left_out(folder: str) -> bool:
    """Whether a folder is the system's, or a link to one around it, in which all is once more."""
    path = Path(folder)
    is_loop = path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())
    return is_loop or bool(OF_SYSTEM.fullmatch(path.name))


def parts_below(root: Path) -> dict[str, str]:
    """The folder of each part below `root`, in the order of PARTS; empty if folders are classes.

    Raises: DataError for another folder beside the parts, or two of one part.
    """
    folders = _folders(root)
    of_part: dict[str | None, str] = {}
    strange = [name for name in folders if of_part.setdefault(part_of(name), name) != name]
    if None in of_part:
        strange.append(of_part.pop(None))
    is_alone = len(of_part) == 1 and strange and "train" not in folders
    if "train" not in of_part or is_alone:
        return {}
    if strange:
        raise errors.DataError(
            f"{root}: has a folder {min(strange)!r} beside {of_part['train']}/; folders there are "
            f"{', '.join(PARTS)}, one of each (also named {OTHERS}): rename or remove it"
        )
    return {part: of_part[part] for part in PARTS if part in of_part}


def _by_class(root: Path, folder: Path, ignored: list[str]) -> tuple[ImagesOf, image_labels.Cells]:
    """The images of each class: in a folder each, or as a table of labels says, with its cells."""
    folders = _folders(folder)
    if len(folders) == 1 and part_of(folders[0]) == part_of(folder.name) is not None:
        return _by_class(root, folder / folders[0], ignored)  # seg_train/seg_train/<class>
    if len(folders) < 2 and (table := image_labels.table_in(folder)):
        images = [*files_in(root, folder, ignored)]
        ignored[:] = {*ignored} - {table.relative_to(root).as_posix()}
        return image_labels.read(table, images)
    if not folders:
        raise errors.DataError(
            f"{folder}: has no folder of images; put the images of each class into one, such as "
            f"{folder / 'cat' / '1.png'}, or a table of their names and labels beside them: "
            f"{image_labels.EXAMPLE}; move the folder of a part without labels away"
        )
    _warn_of_parts(folder, folders)
    images_of = {name: sorted(files_in(root, folder / name, ignored)) for name in folders}
    for name, paths in images_of.items():
        if not paths:
            raise errors.DataError(
                f"{folder / name}: a class without images ({', '.join(SUFFIXES)}); put some there, "
                "or remove it"
            )
    return images_of, {}


def _warn_of_parts(folder: Path, classes: Sequence[str]) -> None:
    """Warns of classes that hold the same folders, as parts of a data set would."""
    inner = [_folders(folder / name) for name in classes]
    if any(len(names) > 1 and inner.count(names) > 1 for names in inner):
        log.warning(
            "%s: several folders hold the same folders, and are read as classes; if they are parts "
            "of the data, name them train, valid and test", folder,
        )  # fmt: skip


def _tree(root: Path, folders: Mapping[str, str], known: Sequence[str] = ()) -> ImageTree:
    """The images of each part; the classes are `known`, else as in the first part."""
    names: list[str] = []
    targets: list[int] = []
    indices = {}
    labels: dict[str, str] = {}
    cells: image_labels.Cells = {}
    ignored: list[str] = []
    class_names = [*known]
    for part, folder in folders.items():
        images_of, of_table = _by_class(root, root / folder, ignored)
        cells |= of_table
        class_names = class_names or [*images_of]
        _check_known(root / folder, images_of, class_names)
        begin = len(names)
        for class_name, paths in images_of.items():
            names += paths
            targets += [class_names.index(class_name)] * len(paths)
            labels |= dict.fromkeys(paths, class_name) if of_table else {}
        indices[part] = torch.arange(begin, len(names))
    if len(class_names) < 2:
        raise errors.DataError(
            f"{root}: has one class, {class_names[0]!r}; there is nothing to classify: add another"
            f"; if its folders are classes or parts, set data.path={root / class_names[0]}; if its "
            f"files are pictures, give {image_labels.EXAMPLE}"
        )
    _warn_of_ignored(root, ignored)
    classes = tuple(class_names)
    return ImageTree(root, tuple(names), torch.tensor(targets), classes, indices, labels, cells)


def _check_known(folder: Path, names: Iterable[str], known: Sequence[str]) -> None:
    """Raises: DataError for a class of a part that the training data do not have."""
    for name in names:
        if name not in known:
            hint = errors.nearest(name, known) or "; put images of it there"
            raise errors.DataError(f"{folder / name}: the training data have no such class{hint}")


def files_in(root: Path, folder: Path, ignored: list[str]) -> Iterator[str]:
    """The images in `folder`, as paths from the root; other files are added to `ignored`."""
    walked = watched(os.walk(folder, followlinks=True), f"{folder}: folders looked through")
    for parent, folders, files in walked:
        folders[:] = [name for name in folders if not _is_left_out(os.path.join(parent, name))]
        for file in files:
            name = Path(parent, file).relative_to(root).as_posix()
            if file.startswith("."):
                continue
            if file.lower().endswith(SUFFIXES):
                yield name
            else:
                ignored.append(name)

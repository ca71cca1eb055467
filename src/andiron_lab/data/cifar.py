"""CIFAR-10 and CIFAR-100; torchvision downloads them if they are missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tarfile import TarError
from typing import Any

import torch

from andiron import errors
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset
from andiron.data.splitting import splits
from andiron.data.splitting.splits import Splits
from andiron.disk import files, guarded_folders
from andiron.ranges import Seed, Validation
from andiron.recording import keep_arguments

SHAPE = (3, 32, 32)
MOST_BYTES = 2**28  # of a file: the largest has 154 MB
PIXELS = 3 * 32 * 32  # bytes of an image: all of its red, then green, then blue


@dataclass(frozen=True)
class _Archive:
    """One of the two data sets, as published by its authors."""

    name: str
    url: str
    md5: str
    folder: str
    train: Mapping[str, int]  # files, with the number of images in each
    test: Mapping[str, int]
    names: str  # file of the class names, one a line
    label_bytes: int  # before each image; the last is its class
    num_classes: int


CIFAR10 = _Archive(
    name="CIFAR10",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    folder="cifar-10-batches-bin",
    train={f"data_batch_{number}.bin": 10_000 for number in range(1, 6)},
    test={"test_batch.bin": 10_000},
    names="batches.meta.txt",
    label_bytes=1,
    num_classes=10,
)
CIFAR100 = _Archive(
    name="CIFAR100",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    md5="03b5dce01913d631647c71ecec9e9cb8",
    folder="cifar-100-binary",
    train={"train.bin": 50_000},
    test={"test.bin": 10_000},
    names="fine_label_names.txt",
    label_bytes=2,  # one of 20 superclasses, then the class
    num_classes=100,
)


@keep_arguments
def cifar10(*, root: str, valid: Validation, split_seed: Seed) -> Splits:
    """Photographs in ten classes, 32x32 in colour, in `root`/cifar-10-batches-bin.

    The binary version: the Python version is pickled, and reading a pickle runs its code. Mean and
    standard deviation are per channel of the training pixels / 255.
    Source: Krizhevsky 2009, "Learning multiple layers of features from tiny images".
    Raises: DataError if the files are damaged, or missing and cannot be downloaded.
    """
    batcher = ImageBatcher(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616))
    return _splits(CIFAR10, root, batcher, valid=valid, split_seed=split_seed)


@keep_arguments
def cifar100(*, root: str, valid: Validation, split_seed: Seed) -> Splits:
    """Photographs in a hundred classes, 32x32 in colour, in `root`/cifar-100-binary.

    Version, source, mean and standard deviation as for CIFAR-10.
    Raises: DataError if the files are damaged, or missing and cannot be downloaded.
    """
    batcher = ImageBatcher(mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762))
    return _splits(CIFAR100, root, batcher, valid=valid, split_seed=split_seed)


def _splits(archive: _Archive, root: str, batcher: ImageBatcher, **options: Any) -> Splits:
    folder = Path(root).absolute() / archive.folder
    if not _present(archive, folder):
        _download(archive, folder)
    names = _content(folder, archive.names).decode(errors="replace").split()
    if len(names) != archive.num_classes:
        raise _damaged(
            folder, f"{archive.names} has {len(names)} names instead of {archive.num_classes}"
        )
    return splits.of_training_and_test(
        _read(archive, folder, archive.train),
        _read(archive, folder, archive.test),
        name=archive.name,
        batcher=batcher,
        facts={"input_shape": SHAPE, "num_classes": archive.num_classes, "class_names": names},
        **options,
    )


def _present(archive: _Archive, folder: Path) -> bool:
    files = *archive.train, *archive.test, archive.names
    return all((folder / file).is_file() for file in files)


def _download(archive: _Archive, folder: Path) -> None:
    """The archive beside `folder`, checked by its MD5, and its files in `folder`."""
    # as slow to import as torch, so only a missing CIFAR imports it
    from torchvision.datasets import utils

    why = "the archive has other files"
    try:
        guarded_folders.check_writing(folder)
        utils.download_and_extract_archive(archive.url, str(folder.parent), md5=archive.md5)
    except (OSError, RuntimeError, EOFError, TarError) as error:
        why = errors.one_line(error)
    if not _present(archive, folder):
        raise errors.DataError(
            f"{archive.name} is not in {folder} and could not be downloaded ({why}); "
            f"put the files of {archive.url} there, point ANDIRON_DATA_DIR at the folder that "
            "holds it, or use data=digits, which needs no download"
        )


def _read(archive: _Archive, folder: Path, parts: Mapping[str, int]) -> ArrayDataset:
    row = archive.label_bytes + PIXELS
    content = bytearray()
    for file, number in parts.items():
        of_file = _content(folder, file)
        if len(of_file) != number * row:
            raise _damaged(folder, f"{file} has {len(of_file)} bytes instead of {number * row}")
        content += of_file
    everything = torch.frombuffer(content, dtype=torch.uint8).view(-1, row)
    targets = everything[:, archive.label_bytes - 1].long()
    if int(targets.max()) >= archive.num_classes:
        classes = f"classes are from 0 to {archive.num_classes - 1}"
        raise _damaged(folder, f"{classes}, and one is {int(targets.max())}")
    images = everything[:, archive.label_bytes :].reshape(-1, *SHAPE).contiguous()
    return ArrayDataset(images, targets)


def _content(folder: Path, name: str) -> bytes:
    try:
        return files.read_bytes(folder / name, MOST_BYTES)
    except ValueError as error:
        raise _damaged(folder, f"{name} {error}") from error


def _damaged(folder: Path, what: str) -> errors.DataError:
    return errors.DataError(
        f"{folder}: a file there is damaged ({what}); remove the folder to download it again"
    )

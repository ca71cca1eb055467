"""MNIST and Fashion-MNIST; torchvision reads them, and downloads them if they are missing."""

from pathlib import Path
from typing import Any

from andiron import errors
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset
from andiron.data.splitting import splits
from andiron.data.splitting.splits import Splits
from andiron.disk import guarded_folders
from andiron.ranges import Seed, Validation
from andiron.recording import keep_arguments

NUM_FILES = 4  # images and labels, for training and for the test
SIZES = {True: 60_000, False: 10_000}  # images for training, for the test


@keep_arguments
def mnist(*, root: str, valid: Validation, split_seed: Seed) -> Splits:
    """Handwritten digits, 28x28, in `root`/MNIST/raw.

    Source: LeCun, Cortes & Burges 1998. Mean and standard deviation are of the training
    pixels / 255.
    Raises: DataError if the files are damaged, or missing and cannot be downloaded.
    """
    return _splits(
        "MNIST", root, ImageBatcher(mean=0.1307, std=0.3081), valid=valid, split_seed=split_seed
    )


@keep_arguments
def fashion_mnist(*, root: str, valid: Validation, split_seed: Seed) -> Splits:
    """Pictures of clothes in ten classes, 28x28, in `root`/FashionMNIST/raw.

    Source: Xiao, Rasul & Vollgraf 2017, arXiv:1708.07747. Mean and standard deviation as for MNIST.
    Raises: DataError if the files are damaged, or missing and cannot be downloaded.
    """
    return _splits(
        "FashionMNIST",
        root,
        ImageBatcher(mean=0.2860, std=0.3530),
        valid=valid,
        split_seed=split_seed,
    )


def _splits(name: str, root: str, batcher: ImageBatcher, **options: Any) -> Splits:
    training, test = (_read(name, Path(root), train=train) for train in (True, False))
    return splits.of_training_and_test(
        training,
        test,
        name=name,
        batcher=batcher,
        facts={"input_shape": tuple(training.inputs.shape[1:]), "num_classes": 10},
        **options,
    )


def _read(name: str, root: Path, *, train: bool) -> ArrayDataset:
    # as slow to import as torch, so only a configuration with MNIST imports it
    from torchvision import datasets

    folder = root.absolute() / name / "raw"
    try:
        if len([*folder.glob("*-ubyte*")]) < NUM_FILES:
            guarded_folders.check_writing(folder)
        dataset = getattr(datasets, name)(root, train=train, download=True)  # if files are missing
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, AssertionError) as error:
        if len([*folder.glob("*-ubyte")]) == NUM_FILES:
            raise errors.DataError(
                f"{folder}: a file there is damaged ({error}); "
                "remove the folder to download it again"
            ) from error
        raise errors.DataError(
            f"{name} is not in {folder} and could not be downloaded ({errors.one_line(error)}); "
            "put its four files there, point ANDIRON_DATA_DIR at the folder that holds it, or use "
            "data=digits, which needs no download"
        ) from error
    if len(dataset.data) != SIZES[train] or len(dataset.targets) != SIZES[train]:
        raise errors.DataError(
            f"{folder}: {len(dataset.data)} images and {len(dataset.targets)} labels instead of "
            f"{SIZES[train]} of each; remove the folder to download it again"
        )
    return ArrayDataset(dataset.data.unsqueeze(1), dataset.targets)

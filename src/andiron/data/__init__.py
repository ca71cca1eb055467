"""Data sets, derived data sets, augmentations, and loaders that make batches."""

import importlib
from typing import TYPE_CHECKING, Any

from andiron.data.batchers import ArrayBatcher, ImageBatcher
from andiron.data.dataset import ArrayDataset, Batch, Dataset, RawBatch
from andiron.data.loader import DataLoader
from andiron.data.loading.loader_builder import DataLoaderBuilder
from andiron.data.splitting import fingerprint
from andiron.data.splitting.splits import Splits

if TYPE_CHECKING:  # imported once asked for, by `__getattr__`
    from andiron.data.augment.image_augmentation import Crop, Cutout, Flip, Rotate, Shift
    from andiron.data.augment.torchvision_transforms import Torchvision
    from andiron.data.composed.composed_datasets import Concatenated, Mapped, Partial
    from andiron.data.composed.derived_splits import balanced, kfold, partial
    from andiron.data.composed.torch_dataset import torch_dataset
    from andiron.data.composed.torch_samples import from_torch, padded
    from andiron.data.on_disk.csv_file import csv
    from andiron.data.on_disk.image_folder import image_folder
    from andiron.data.on_disk.safetensors_arrays import safetensors
    from andiron.data.on_disk.stored import StoredDataset
    from andiron.data.on_disk.text_file import text
    from andiron.data.sources.diabetes import diabetes
    from andiron.data.sources.digits import digits
    from andiron.data.sources.mnist import fashion_mnist, mnist
    from andiron.data.splitting.stratified import stratified_folds

LEAVES = {  # the names of each module
    "augment.image_augmentation": "Crop Cutout Flip Rotate Shift",
    "augment.torchvision_transforms": "Torchvision",
    "composed.composed_datasets": "Concatenated Mapped Partial",
    "composed.derived_splits": "balanced kfold partial",
    "composed.torch_dataset": "torch_dataset",
    "composed.torch_samples": "from_torch padded",
    "on_disk.csv_file": "csv",
    "on_disk.image_folder": "image_folder",
    "on_disk.safetensors_arrays": "safetensors",
    "on_disk.stored": "StoredDataset",
    "on_disk.text_file": "text",
    "sources.diabetes": "diabetes",
    "sources.digits": "digits",
    "sources.mnist": "fashion_mnist mnist",
    "splitting.stratified": "stratified_folds",
}


def __getattr__(name: str) -> Any:
    """A data set, a derived one or an augmentation."""
    for module, names in LEAVES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet."""
    return [*__all__]


__all__ = [
    "ArrayBatcher", "ArrayDataset", "Batch", "Concatenated", "Crop", "Cutout", "DataLoader",
    "DataLoaderBuilder", "Dataset", "Flip", "ImageBatcher", "Mapped", "Partial", "RawBatch",
    "Rotate", "Shift", "Splits", "StoredDataset", "Torchvision",
    "balanced", "csv", "diabetes", "digits", "fashion_mnist", "fingerprint", "from_torch",
    "image_folder", "kfold", "mnist", "padded", "partial", "safetensors",
    "stratified_folds", "text", "torch_dataset",
]  # fmt: skip

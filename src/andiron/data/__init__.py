"""Data sets, and loaders that turn them into batches."""

from andiron.data.arrays import ArrayDataset
from andiron.data.batcher import ImageBatcher
from andiron.data.dataset import Batch, Dataset, RawBatch
from andiron.data.digits import digits
from andiron.data.loader import DataLoader, DataLoaderBuilder
from andiron.data.mnist import fashion_mnist, mnist
from andiron.data.splits import Splits

__all__ = [
    "ArrayDataset", "Batch", "DataLoader", "DataLoaderBuilder", "Dataset", "ImageBatcher", "RawBatch", "Splits",
    "digits", "fashion_mnist", "mnist",
]  # fmt: skip

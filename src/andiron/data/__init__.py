"""Data sets, what is made of them, and loaders that turn them into batches."""

from andiron.data import fingerprint
from andiron.data.array_batcher import ArrayBatcher
from andiron.data.arrays import ArrayDataset
from andiron.data.augmentation import Crop, Cutout, Flip, Rotate, Shift
from andiron.data.batcher import ImageBatcher
from andiron.data.cifar import cifar10, cifar100
from andiron.data.csv_file import csv
from andiron.data.dataset import Batch, Dataset, RawBatch
from andiron.data.diabetes import diabetes
from andiron.data.digit_pairs import digit_pairs
from andiron.data.digits import digits
from andiron.data.folds import kfold, stratified_folds
from andiron.data.image_folder import image_folder
from andiron.data.loader import DataLoader, DataLoaderBuilder
from andiron.data.mixing import Mixup
from andiron.data.mnist import fashion_mnist, mnist
from andiron.data.safetensors_file import safetensors
from andiron.data.sampling import balanced, partial, sampled
from andiron.data.splits import Splits
from andiron.data.stored import StoredDataset
from andiron.data.synthetic import synthetic
from andiron.data.text_file import text
from andiron.data.torchvision_transforms import Torchvision
from andiron.data.views import Concatenated, Mapped, Partial, Windows

__all__ = [
    "ArrayBatcher", "ArrayDataset", "Batch", "Concatenated", "Crop", "Cutout", "DataLoader", "DataLoaderBuilder",
    "Dataset", "Flip", "ImageBatcher", "Mapped", "Mixup", "Partial", "RawBatch", "Rotate", "Shift", "Splits",
    "StoredDataset", "Torchvision", "Windows", "balanced", "cifar10", "cifar100", "csv", "diabetes", "digit_pairs",
    "digits", "fashion_mnist", "fingerprint", "image_folder", "kfold", "mnist", "partial", "safetensors", "sampled",
    "stratified_folds", "synthetic", "text",
]  # fmt: skip

"""The three ways to gather: the same images in the same order, augmented the same, whoever gathers
them and from where on.
"""

import pytest
import torch
from PIL import Image

from andiron.data import (
    ArrayDataset, Crop, Cutout, DataLoader, Flip, Rotate, StoredDataset, image_folder,
)  # fmt: skip
from andiron.data.on_disk.image_folder import ImageFolderDataset

SEED, BATCH_SIZE, EPOCH = 11, 7, 3
AUGMENTATIONS = (Crop(2), Flip(0.5), Rotate(15.0), Cutout(3))


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Training images decoded at every batch, read from their file, and in memory; and
    what makes batches of them.
    """
    root = tmp_path_factory.mktemp("images")
    noise = torch.Generator().manual_seed(0)
    for number in range(40):
        path = root / ("cat" if number % 2 else "dog") / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        pixels = torch.randint(256, (13, 12, 3), dtype=torch.uint8, generator=noise)
        Image.fromarray(pixels.numpy()).save(path)
    options = {
        "path": str(root), "size": 10, "channels": 3, "valid": 0.1, "test": 0.1, "split_seed": 0,
    }  # fmt: skip
    decoded, stored = (image_folder(**options, decoded=how) for how in ("workers", "once"))
    in_memory = ArrayDataset(*stored.train.__getitems__(torch.arange(len(stored.train))))
    assert isinstance(decoded.train, ImageFolderDataset) and isinstance(stored.train, StoredDataset)
    return {
        "decoded": decoded.train, "stored": stored.train, "in memory": in_memory,
    }, stored.batcher  # fmt: skip


def loader(datasets, path, num_workers):
    by_path, batcher = datasets
    return DataLoader(
        by_path[path], batcher, batch_size=BATCH_SIZE, shuffle_seed=SEED, num_workers=num_workers,
        augmentations=AUGMENTATIONS,
    )  # fmt: skip


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("path", ["decoded", "stored", "in memory"])
def test_order_and_augmented_pixels_are_equal_on_every_path_and_after_seek(
    datasets, path, num_workers
):
    expected = list(loader(datasets, "in memory", 0).epoch(EPOCH))
    batches = loader(datasets, path, num_workers)

    assert len(expected) == 5 and len(expected[-1].targets) == 4  # the last of 32 is short
    for first in range(len(expected)):
        result = list(batches.epoch(EPOCH, first))
        assert len(result) == len(expected) - first
        for one, other in zip(result, expected[first:], strict=True):
            assert torch.equal(one.inputs, other.inputs) and torch.equal(one.targets, other.targets)
            assert one.inputs.is_contiguous() == other.inputs.is_contiguous()

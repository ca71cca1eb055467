"""Samples a second of the three ways to gather batches, beside torch's DataLoader over the same
files.

    python benchmarks/loading.py [--rounds N] [--images N]

The files are pictures: the shipped digits, enlarged to 96 x 96 pixels and saved as PNG, in a folder
of class folders. Each side goes through one shuffled epoch in batches of 64, as normalised floats
on the CPU, and nothing is trained: this is the most that a step could be fed.
"""

import argparse
import functools
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1] / "src")
)  # a plain checkout needs no install of its own

import torch  # noqa: E402
from torch.utils import data as torch_data  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision import datasets  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

import rounds  # noqa: E402
from andiron import data  # noqa: E402
from andiron.data import ArrayDataset, DataLoaderBuilder  # noqa: E402

SIZE, BATCH, WORKERS = 96, 64, 2
Epoch = Callable[[], Iterable[object]]


def write_images(folder: Path, number: int) -> None:
    """So many pictures as <folder>/<class>/<number>.png."""
    digits = data.digits(valid=0.1, split_seed=0, size=SIZE).train
    for index in range(number):
        image, target = digits[index % len(digits)]
        path = folder / str(int(target)) / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image[0] * 15).numpy()).save(path)


class Memmapped(torch_data.Dataset):
    """The decoded pictures a sample at a time, as most code has them."""

    def __init__(self, stored: data.Dataset):
        everything = stored.__getitems__(torch.arange(len(stored)))
        self.images, self.targets = everything.inputs, everything.targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (self.images[index].float() / 255 - 0.45) / 0.225, self.targets[index]


def sides(folder: Path) -> dict[str, Epoch]:
    """An epoch of each; the first of every three is torch's."""
    options = {
        "path": str(folder),
        "size": SIZE,
        "channels": 1,
        "valid": 0.1,
        "test": 0.1,
        "split_seed": 0,
    }
    decoded, at_each_batch = (
        data.image_folder(**options, decoded=how) for how in ("once", "workers")
    )
    stored = decoded.train
    steps = [
        v2.Grayscale(),
        v2.Resize(SIZE),
        v2.CenterCrop(SIZE),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.45], [0.225]),
    ]
    files = datasets.ImageFolder(str(folder), v2.Compose(steps), allow_empty=True)
    files = torch_data.Subset(files, range(len(stored)))

    def theirs(dataset: torch_data.Dataset, workers: int) -> Epoch:
        loader = torch_data.DataLoader(
            dataset, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )
        return lambda: loader

    def ours(dataset: data.Dataset, batcher: object, workers: int = 0) -> Epoch:
        loader = (
            DataLoaderBuilder(batcher)
            .batch_size(BATCH)
            .shuffle(0)
            .num_workers(workers)
            .build(dataset)
        )
        return lambda: loader.epoch(0)

    in_memory = ArrayDataset(*stored.__getitems__(torch.arange(len(stored))))
    return {
        f"files, torch's DataLoader, {WORKERS} workers": theirs(files, WORKERS),
        f"files, Andiron, {WORKERS} workers": ours(
            at_each_batch.train, at_each_batch.batcher, WORKERS
        ),
        "files, Andiron, a thread": ours(at_each_batch.train, at_each_batch.batcher),
        "decoded, torch's DataLoader, no worker": theirs(Memmapped(stored), 0),
        "decoded, Andiron, from the file, a thread": ours(stored, decoded.batcher),
        "decoded, Andiron, in memory": ours(in_memory, decoded.batcher),
    }


def seconds(epoch: Epoch) -> float:
    """Of one pass."""
    with rounds.stopwatch() as elapsed:
        for _ in epoch():
            pass
    return elapsed()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=6000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder), arguments.images)
        epochs = {
            name: functools.partial(seconds, epoch) for name, epoch in sides(Path(folder)).items()
        }
        measured = rounds.interleaved(epochs, arguments.rounds)
    print(f"{rounds.machine(1)}\n\n{rounds.compared(measured)}")


if __name__ == "__main__":
    main()

"""Small files for every data set of `conf/data` that reads some, in the current folder."""

import csv
import importlib
import struct
from pathlib import Path

import safetensors.torch
import torch
from PIL import Image

# by its name: the package has a function of the same
mnist = importlib.import_module("andiron.data.sources.mnist")
IMAGES = 40  # in each file
POINTS = """import torch
class Points(torch.utils.data.Dataset):
    def __init__(self, targets):
        self.inputs = torch.randn(61, 5, generator=torch.Generator().manual_seed(0))
        number = torch.arange(61)
        self.targets = {
            "classes": number % 3,
            "two": number % 2,
            "labels": torch.stack([number % 2, number % 3], 1) == 1,
            "numbers": self.inputs[:, :2] * 3 + 1,
        }[targets]
    def __len__(self):
        return len(self.inputs)
    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]
"""


def write(monkeypatch):
    """All of them; the published sizes of Fashion-MNIST are then the files' sizes."""
    _write_points()
    _write_table()
    _write_images("pictures", ["cat", "dog", "owl"])
    _write_images("pets", ["cat", "dog"])
    _write_fashion_mnist(monkeypatch)
    Path("poem.txt").write_text("So much depends upon a red wheel barrow\n" * 40)


def table(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def _write_points():
    Path("points.py").write_text(POINTS)
    points = importlib.import_module("points").Points
    stored = {name: points(name).targets for name in ("classes", "two", "labels", "numbers")}
    stored["inputs"] = points("two").inputs
    safetensors.torch.save_file(stored, "points.safetensors")


def _write_table():
    numbers = torch.randn(61, 3, generator=torch.Generator().manual_seed(1)).tolist()
    kinds, colours = ["rose", "tulip"] * 31, ["red", "white", "yellow"] * 21
    rows = [
        {"width": a, "height": b, "kind": kind, "colour": colour, "depth": c}
        for (a, b, c), kind, colour in zip(numbers, kinds, colours, strict=False)
    ]
    table(Path("flowers.csv"), rows)


def _write_images(folder, classes):
    generator = torch.Generator().manual_seed(1)
    for number in range(IMAGES):
        path = Path(folder, classes[number % len(classes)], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(0, 256, (11 + number % 3, 13, 3), generator=generator)
        Image.fromarray(pixels.to(torch.uint8).numpy()).save(path)


def _bytes(*shape):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator).numpy().tobytes()


def _write_fashion_mnist(monkeypatch):
    folder = Path("FashionMNIST", "raw")
    folder.mkdir(parents=True)
    for part in ("train", "t10k"):
        images = struct.pack(">HBB3I", 0, 8, 3, IMAGES, 28, 28) + _bytes(IMAGES, 28, 28)
        labels = struct.pack(">HBBI", 0, 8, 1, IMAGES) + bytes(range(10)) * (IMAGES // 10)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)
    monkeypatch.setattr(mnist, "SIZES", {True: IMAGES, False: IMAGES})

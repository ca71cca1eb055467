"""Folders of noisy pictures of three classes, and what they should be read as."""

import os

import torch
from PIL import Image
from torchvision.transforms import v2

from andiron.data.on_disk import image_tree
from andiron.data.on_disk.image_folder import image_folder

SIZE = 6
COUNTS = {"ant": 7, "bee": 5, "cat": 9}  # images of a class
SUFFIXES = ("png", "jpg", "jpeg", "bmp", "webp", "PNG")


def picture(seed, width, height, mode="RGB"):
    """Noise, as a Pillow image."""
    size = height, width, {"RGB": 3, "L": 1, "RGBA": 4}[mode]
    stream = torch.Generator().manual_seed(seed)
    noise = torch.randint(256, size, dtype=torch.uint8, generator=stream)
    return Image.frombytes(mode, (width, height), noise.numpy().tobytes())


def fill(folder, counts, first=0):
    """Images of many sizes and formats, some of them deeper; all are a minute old."""
    seed = first
    for name, number in counts.items():
        for at in range(number):
            place = folder / name / ("deep/er" if at % 3 == 2 else "")
            place.mkdir(parents=True, exist_ok=True)
            file = place / f"{at}.{SUFFIXES[seed % len(SUFFIXES)]}"
            picture(seed, 6 + seed % 5, 6 + (3 * seed) % 7).save(file)
            seed += 1
    age(folder)
    return folder


def age(folder):
    for file in folder.rglob("*.*"):
        os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns - 60 * 10**9))


def load(root, *, cache=None, **given):
    options = {
        "decoded": "workers", "valid": 0.25, "test": 0.2, "size": SIZE, "channels": 3,
        "split_seed": 0, "cache": None if cache is None else str(cache),
    }  # fmt: skip
    return image_folder(path=str(root), **options | given)


def expected(root, size=SIZE, mode="RGB"):
    """Every image by torchvision's transforms of Pillow's images, in the order of their names, with
    the classes.
    """
    transform = v2.Compose([v2.Resize(size), v2.CenterCrop(size), v2.PILToTensor()])
    images, classes = [], []
    for number, name in enumerate(sorted(COUNTS)):
        files = [
            file for file in (root / name).rglob("*") if file.is_file() and file.suffix != ".txt"
        ]
        for file in sorted(files, key=lambda file: file.relative_to(root).as_posix()):
            images.append(transform(Image.open(file).convert(mode)))
            classes.append(number)
    return torch.stack(images), torch.tensor(classes)


def everything(dataset):
    return dataset.__getitems__(range(len(dataset)))


def damage(root, *names):
    """The files, no images any more; the names of all others."""
    for name in names:
        (root / name).write_bytes(b"")
    age(root)
    return [name for name in image_tree.find(root).names if name not in names]

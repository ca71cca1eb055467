"""Image files as tensors of one shape, singly or as a data set."""

import functools
import io
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Classes, Indices, RawBatch
from andiron.data.splitting import fingerprint
from andiron.disk import files
from andiron.progress import watched
from andiron.ranges import Resizing

MODES = {1: "L", 3: "RGB"}  # Pillow's names, by the number of channels
REMEDY = "; replace the file or remove it"
SKIPPING = "; data.scan=true lists all such files, data.max_unreadable=1 skips one"
WIDE = ("I", "F")  # prefixes of Pillow's names for more than 8 bits a channel
WHITE = 2**16 - 1
DEFAULT = Resizing()
log = logging.getLogger("andiron")
AT_ONCE = 64  # images that the threads decode together, all in memory at once
UNREADABLE = (
    OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, struct.error, zlib.error,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ImageFolderDataset:
    """Image files by index, decoded batch by batch, in worker processes too."""

    root: Path
    names: tuple[str, ...]
    targets: Classes
    size: int
    channels: int
    resizing: Resizing = field(default_factory=Resizing)

    def __len__(self) -> int:
        return len(self.names)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in this order.

        Raises: DataError naming the file that cannot be read as an image.
        """
        chosen = torch.as_tensor(indices)
        try:
            images = [self.decoded(self.names[index]) for index in chosen.tolist()]
        except errors.DataError as error:
            raise errors.DataError(f"{error}{SKIPPING}") from error
        return RawBatch(torch.stack(images), self.targets[chosen])

    def sample_name(self, index: int) -> str:
        """The file of a sample, below the folder."""
        return self.names[index]

    def decoded(self, name: str) -> Tensor:
        """The image in one file."""
        shape = self.channels, self.size, self.size
        return of_file(self.root / name, shape, self.resizing)

    def decoded_or_problem(self, name: str) -> Tensor | str:
        """The image in one file, or why it cannot be read."""
        try:
            return self.decoded(name)
        except errors.DataError as error:
            return str(error).removeprefix(f"{self.root / name}: ").removesuffix(REMEDY)

    def subset(self, indices: Indices) -> "ImageFolderDataset":
        """A data set of the samples at `indices`."""
        chosen = torch.as_tensor(indices)
        names = tuple(self.names[index] for index in chosen.tolist())
        return replace(self, names=names, targets=self.targets[chosen])


def of_file(
    path: Path, shape: Sequence[int], resizing: Resizing = DEFAULT
) -> UInt8[Tensor, "channels height width"]:
    """The centre of the image, its shorter side resized to that of a square `shape`.

    The pixels equal torchvision's Resize and CenterCrop on Pillow's images. `resizing` changes the
    size before the crop, the interpolation, and whether both sides get it. The camera's rotation
    is applied, transparency is dropped, and only the first frame of an animation is used. Grey of
    16 bits is divided by 257, grey of floats from 0 to 1 multiplied by 255. For any other shape the
    image must already have that size.
    Raises: DataError if it is not a whole image, or has values outside of these ranges.
    """
    with opened(path) as image:
        return _pixels(image, shape, resizing)


def of_picture(
    image: object, name: str, shape: Sequence[int], resizing: Resizing = DEFAULT
) -> UInt8[Tensor, "channels height width"]:
    """`of_file` for a PIL image, which is not changed, or its bytes; `name` is for messages."""
    with _readable(name):
        if isinstance(image, bytes):
            from PIL import Image

            image = Image.open(io.BytesIO(image))
        return _pixels(image, shape, resizing)


def stat(path: Path) -> os.stat_result:
    """The size and the times of a file.

    Raises: DataError if there is none, as of a link to a file that is gone.
    """
    with _readable(str(path)):
        return path.stat()


def all_decoded(images: ImageFolderDataset) -> Iterator[tuple[str, Tensor | str]]:
    """The name of each image, and its pixels or why it cannot be read."""
    return zip(images.names, in_threads(images.decoded_or_problem, images.names), strict=True)


def in_threads(function: Callable[[Any], object], images: Sequence[object]) -> Iterator[Any]:
    """The function's value for each image, in order; hashing and decoding release the GIL."""
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="images") as threads:
        starts = range(0, len(images), AT_ONCE)
        for start in watched(starts, f"images, in groups of {AT_ONCE}", len(starts)):
            yield from threads.map(function, images[start : start + AT_ONCE])


def of_sizes(root: Path, names: Sequence[str]) -> str:
    """SHA-256 over the names and sizes of files below `root`. Raises: DataError if one is gone."""
    return fingerprint.of_texts(
        f"{name}\0{stat(root / name).st_size}\n"
        for name in watched(names, f"{root}: sizes of images", len(names))
    )


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The PIL image in a file. Raises: DataError as `of_file`, also for what is done with it."""
    from PIL import Image  # 40 ms, so only a folder of images imports it

    with _readable(str(path)), files.opened(path) as file:
        if what := files.stand_in(file.peek()):
            raise ValueError(what)
        with Image.open(file) as image:
            yield image


@contextmanager
def _readable(name: str) -> Iterator[None]:
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except FileNotFoundError as error:
        raise errors.DataError(f"{name}: there is no such file; correct the path") from error
    except (*UNREADABLE, Image.DecompressionBombError) as error:
        why = errors.one_line(error)
        if isinstance(error, UnidentifiedImageError):  # its text has a file number
            why = "it is in no format that Pillow knows"
        raise errors.DataError(
            f"{name}: cannot be read as an image ({why}){REMEDY}"
        ) from error


def _pixels(image: Any, shape: Sequence[int], resizing: Resizing) -> Tensor:
    from PIL import ImageOps

    channels, height, width = shape
    is_negative = is_inverted(image)
    if path := getattr(image, "filename", ""):
        image.filename = ""  # Pillow 11 to 13 map a file by name, and scramble a turned TIFF
        image.load()
        image.filename = path
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(WIDE):
        image = _in_8_bits(image)
    chosen = image.convert(MODES[channels])
    if is_negative:
        chosen = ImageOps.invert(chosen)
    if height == width:
        chosen = _centre(chosen, height, resizing)
    elif chosen.size != (width, height):
        size = "{}x{}".format(*chosen.size)
        raise ValueError(f"it has {size} pixels where the run has {width}x{height}: resize it")
    pixels = torch.frombuffer(bytearray(chosen.tobytes()), dtype=torch.uint8)
    return pixels.view(height, width, channels).permute(2, 0, 1).contiguous()


def is_inverted(image: Any) -> bool:
    """Whether Pillow gives the negative of a TIFF; raises for one that it reads wrongly.

    It leaves "white is zero" as it is in more than 8 bits; tifffile writes so yes/no masks, in
    which yes is 1.
    """
    bits, compression, white, planes, kind = (
        getattr(image, "tag_v2", {}).get(tag) for tag in (258, 259, 262, 284, 339)
    )
    if bits == (8,) and kind == (2,):
        raise ValueError("it has signed bytes: save it as unsigned ones")
    if bits and bits[1:] and bits[0] == 16 and planes == 2 and compression == 1:
        raise ValueError("it has 16-bit colours in planes: save it with the colours side by side")
    if white != 0 or image.mode != "1":
        return white == 0 and image.mode.startswith(WIDE)
    return str(image.tag_v2.get(305)).startswith("tifffile")


def _in_8_bits(image: Any) -> Any:
    """A grey image of 16 bits or floats as one of 8 bits."""
    from PIL import Image

    white = 1.0 if image.mode == "F" else WHITE
    values = np.asarray(image, dtype=np.float64)
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= white):
        raise ValueError(
            f"its values are from {low:g} to {high:g}, and should be from 0 to {white:g}, which is "
            "white: scale them"
        )
    if 0 < high <= white / 16:
        _warn_of_dark(white)
    return Image.fromarray((values * (255 / white)).round().astype(np.uint8))


@functools.cache
def _warn_of_dark(white: float) -> None:
    log.warning(
        "a picture of more than 8 bits has values of at most a 16th of %g, which is white, and is "
        "almost black: scale such pictures (by 16 if they have 12 bits)", white,
    )  # fmt: skip


def _centre(image: Any, size: int, resizing: Resizing) -> Any:
    from PIL.Image import Resampling

    shorter, is_squashed = min(image.size), resizing.get("squash")
    before = int(round(size / resizing.get("crop", 1.0), 6))  # as timm, but for rounding
    width, height = (
        before if is_squashed or side == shorter else int(before * side / shorter)
        for side in image.size
    )
    left, top = round((width - size) / 2), round((height - size) / 2)
    filtered = resizing.get("interpolation", "bilinear").upper()
    image = image.resize((width, height), Resampling[filtered])
    return image.crop((left, top, left + size, top + size))

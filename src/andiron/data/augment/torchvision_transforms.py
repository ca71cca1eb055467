"""Any torchvision transform as an augmentation that is reproducible after a resume."""

import multiprocessing
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors, randomness
from andiron.data.augment.image_augmentation import check_targets
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch
from andiron.ranges import NodeOrNodes

Transform = Callable[[Any], Any]
# names of transforms of colours, and of others that move nothing, of any library
COLOURS = r".*(Color|Gray|Invert|Posterize|Solarize|Sharp|[cC]ontrast|Equalize|Photo|Noise)"
STILL = rf"{COLOURS}|.*(Blur|Dtype|Normalize|Erasing|Identity|JPEG|Permutation|RGB)"
OWN_SEEDS = "set_random_state", "set_random_seed"  # methods of monai and of albumentations
SLACK = 1e-3  # of white, for rounding
REMEDY = "leave out ToDtype, ToTensor and Normalize: pixels are normalised later; or end with"


@dataclass(frozen=True)
class Torchvision:
    """`transform`, or several in order, applied to one image after another, on the CPU.

    For each image the default generators of torch, NumPy and Python are seeded from (seed, epoch,
    index), and restored after the batch; so is a transform with the method `set_random_state` or
    `set_random_seed`. Transforms receive [channels, height, width], bytes with white as 255 or
    floats with white as 1, and return this type and range, all images in one shape.
    Raises: ConfigError in a second thread, which would share the generator with the step; DataError
    for another type or range, two results for one seed, and a move beside targets with places.
    """

    transform: NodeOrNodes  # a Transform or a sequence of them
    name: str = "torchvision"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        if not all(re.match(STILL, name) for name in _names(self._transforms)):
            check_targets(raw, self.name)
        pictures = scaled(raw.inputs.cpu(), draws.white)
        results = self.of_samples(lambda place: pictures[place].clone(), draws)
        after = scaled(self.stacked(pictures, results), draws.white, is_back=True)
        return raw._replace(inputs=after.to(raw.inputs.device))

    def of_samples(self, sample: Callable[[int], Any], draws: Draws) -> list[Any]:
        """The transformed `sample(place)` for the places of a batch, the first of them twice."""
        self._check_thread()
        stream, indices = draws.stream(self.name, self), draws.indices.tolist()
        results = []
        with randomness.default_generators_restored():
            for place in (0, *range(len(indices))):  # the first twice: the results should be equal
                counters = draws.seed, stream, draws.epoch, indices[place]
                seed = randomness.seed_default_generators(*counters)
                results.append(self._transformed(sample(place), seed))
        return results

    @property
    def _transforms(self) -> Sequence[Transform]:
        return [self.transform] if callable(self.transform) else self.transform

    def _transformed(self, value: Any, seed: int) -> Any:
        for transform in self._transforms:
            for method in OWN_SEEDS:
                getattr(transform, method, int)(seed % 2**32)
            value = transform(value)
        return value

    def _check_thread(self) -> None:
        if (
            threading.current_thread() is not threading.main_thread()
            and multiprocessing.parent_process() is None
        ):
            raise errors.ConfigError(
                f"augmentation.{self.name}: would draw from torch's default generator in a "
                "thread while the step draws from it too; set num_workers=1 or more, so that "
                "worker processes apply it"
            )

    def stacked(self, before: Tensor, images: list[Any]) -> Tensor:
        """All images but the first, which should equal the second; of the type of `before`."""
        if not torch.equal(images[0], images[1]):
            raise self._refused(
                "gives two results for one seed, as with a generator of its own; draw from "
                "torch's, NumPy's or Python's, or give it a method set_random_state(seed)"
            )
        after = torch.stack(images[1:]).as_subclass(Tensor)
        if after.dtype != before.dtype:
            raise self._refused(
                f"returns {after.dtype} where {before.dtype} is stored; {REMEDY} "
                f"torchvision.transforms.v2.ToDtype({before.dtype}, scale=True)"
            )
        if before.is_floating_point():
            self._check_range(*before.aminmax(), *after.aminmax())
        return after

    def _check_range(self, low: Tensor, high: Tensor, darkest: Tensor, brightest: Tensor) -> None:
        """Refuses floats that were from 0 to 1, and colours of others."""
        if not (low >= 0 and high <= 1):
            if any(re.match(COLOURS, name) for name in _names(self._transforms)):
                raise self._refused(
                    "changes colours, for which floats are from 0 to 1, and stored pictures have "
                    f"{low:g} to {high:g}; store such pictures, or bytes"
                )
        elif not (darkest >= -SLACK and brightest <= 1 + SLACK):
            raise self._refused(
                f"returns {darkest:g} to {brightest:g} for pictures from 0 to 1; {REMEDY} "
                "torch.nn.Hardtanh(0, 1)"
            )

    def _refused(self, why: str) -> errors.DataError:
        return errors.DataError(f"augmentation.{self.name}: {why}")


def _names(transforms: Iterable[object]) -> Iterator[str]:
    """The names of the transforms, and of those in containers."""
    for transform in transforms:
        inner = getattr(transform, "transforms", None)
        yield from _names(inner) if inner else [type(transform).__name__]


def scaled(image: Tensor, white: float | None, *, is_back: bool = False) -> Tensor:
    """Pictures with torchvision's white for a `white` above 1, or back."""
    is_byte = image.dtype == torch.uint8
    if white is None or white <= 1 or not (is_byte or image.is_floating_point()):
        return image
    factor = (255 if is_byte else 1) / white
    scaled = image / factor if is_back else image * factor
    return scaled.round().clamp(max=255).byte() if is_byte else scaled

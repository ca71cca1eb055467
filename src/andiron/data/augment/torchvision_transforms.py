"""Any transform of torchvision's as an augmentation that repeats."""

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from andiron import errors, randomness
from andiron.data.dataset import RawBatch
from andiron.data.augment.sample_random import Draws
from andiron.ranges import NodeOrNodes

Transform = Callable[[Tensor], Any]


@dataclass(frozen=True)
class Torchvision:
    """`transform`, or several in their order, applied to one image after another, on the CPU.

    Each image is transformed with torch's default generator at the start of its own stream (seed, epoch, index), and the
    generator is put back after the batch; so it is for transforms that draw from there, as all of torchvision.transforms.v2
    do, and neither from Python's nor NumPy's generator. They take bytes or floats as they are stored, [channels, height,
    width], and should leave all images of one shape.
    Raises: ConfigError in a thread beside the main one, which would share the generator with the step.
    """

    transform: NodeOrNodes  # a Transform or a sequence of them
    name: str = field(default="torchvision", kw_only=True)

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        self._check_thread()
        transforms: Sequence[Transform]
        transforms = [self.transform] if callable(self.transform) else self.transform
        images: list[Tensor] = []
        with torch.random.fork_rng(devices=[]):
            for image, index in zip(raw.inputs.cpu(), draws.indices.tolist(), strict=True):
                # not torch.manual_seed, which would seed GPUs too, in worker processes that have none
                torch.default_generator.manual_seed(
                    randomness.derive(draws.seed, self.name, draws.epoch, index)
                )
                for transform in transforms:
                    image = transform(image)
                images.append(self._checked(image, images))
        return raw._replace(inputs=torch.stack(images).to(raw.inputs.device))

    def _check_thread(self) -> None:
        if (
            threading.current_thread() is not threading.main_thread()
            and multiprocessing.parent_process() is None
        ):
            raise errors.ConfigError(
                [
                    f"augmentation.{self.name}: would draw from torch's default generator in a thread while the step draws "
                    "from it too; set num_workers=1 or more, so that worker processes apply it"
                ]
            )

    def _checked(self, image: Any, others: Sequence[Tensor]) -> Tensor:
        if not isinstance(image, Tensor):
            kind = type(image).__name__
            raise errors.DataError(
                f"augmentation.{self.name}: gives {kind}, no tensor; end with a transform that gives one"
            )
        if others and image.shape != others[0].shape:
            shapes = f"{list(others[0].shape)} and {list(image.shape)}"
            raise errors.DataError(
                f"augmentation.{self.name}: gives images of {shapes} in one batch; end with a transform that makes them alike, "
                "such as torchvision.transforms.v2.Resize"
            )
        return image

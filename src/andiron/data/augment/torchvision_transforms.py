"""Any torchvision transform as an augmentation that is reproducible after a resume."""

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors, randomness
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch
from andiron.ranges import NodeOrNodes

Transform = Callable[[Tensor], Any]


@dataclass(frozen=True)
class Torchvision:
    """`transform`, or several in order, applied to one image after another, on the CPU.

    For each image torch's default generator is seeded from (seed, epoch, index), and restored after
    the batch. So transforms must draw from that generator, as all of torchvision.transforms.v2 do,
    and not from Python's or NumPy's. They receive stored bytes or floats, [channels, height,
    width], and should return all images in one shape.
    Raises: ConfigError in a second thread, which would share the generator with the step.
    """

    transform: NodeOrNodes  # a Transform or a sequence of them
    name: str = "torchvision"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        self._check_thread()
        transforms: Sequence[Transform]
        transforms = [self.transform] if callable(self.transform) else self.transform
        images: list[Tensor] = []
        with torch.random.fork_rng(devices=[]):
            for image, index in zip(raw.inputs.cpu(), draws.indices.tolist(), strict=True):
                seed = randomness.derive(draws.seed, self.name, draws.epoch, index)
                # not torch.manual_seed, which would also seed GPUs, absent in worker processes
                torch.default_generator.manual_seed(seed)
                for transform in transforms:
                    image = transform(image)
                images.append(self._check_image(image, images))
        return raw._replace(inputs=torch.stack(images).to(raw.inputs.device))

    def _check_thread(self) -> None:
        if (
            threading.current_thread() is not threading.main_thread()
            and multiprocessing.parent_process() is None
        ):
            raise errors.ConfigError(
                [
                    f"augmentation.{self.name}: would draw from torch's default generator in a "
                    "thread while the step draws from it too; set num_workers=1 or more, so that "
                    "worker processes apply it"
                ]
            )

    def _check_image(self, image: Any, others: Sequence[Tensor]) -> Tensor:
        if not isinstance(image, Tensor):
            raise errors.DataError(
                f"augmentation.{self.name}: returns {type(image).__name__}, not a tensor; end with "
                "a transform that returns one"
            )
        if others and image.shape != others[0].shape:
            raise errors.DataError(
                f"augmentation.{self.name}: returns images of {list(others[0].shape)} and "
                f"{list(image.shape)} in one batch; end with a transform that gives them one "
                "shape, such as torchvision.transforms.v2.Resize"
            )
        return image

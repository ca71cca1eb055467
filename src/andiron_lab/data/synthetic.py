"""Random samples of classes with a chosen overlap: for tests and benchmarks, no file."""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Shaped
from pydantic import Field
from torch import Tensor

from andiron import randomness
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset
from andiron.data.splitting import fingerprint, splits
from andiron.data.splitting.divided_rows import Division
from andiron.plain import memory
from andiron.ranges import MOST, Count, Positive, Proportion, Seed, Validation
from andiron.recording import keep_arguments

# a pixel is GREY + STEP x, so that four standard deviations fit between 0 and 255
GREY, STEP = 128.0, 32.0
ROWS_AT_ONCE = 4096


@keep_arguments
def synthetic(
    *,
    num_samples: Count,
    input_shape: Sequence[Count],
    num_classes: Annotated[int, Field(ge=2, le=MOST)],
    separation: Positive = 8.0,
    dtype: Literal["uint8", "float32"] = "uint8",
    seed: Seed = 0,
    valid: Validation,
    test: Proportion = 0.1,
    split_seed: Seed,
) -> splits.Splits:
    """Gaussian blobs: x = separation * u_c + e, with a random unit vector u_c for each class c.

    The entries of e are independent and standard normal. The best accuracy between two classes is
    Phi(separation * |u_a - u_b| / 2), for any shape: 0.9977 for separation 4 and orthogonal
    vectors. The sizes of classes differ by at most one. As uint8, x is stored as the pixel
    128 + 32 x; the batcher returns x, rounded to 1/32 and clipped to [-4, 3.97].
    Raises: DataError if a part would be empty.
    """
    shape = tuple(input_shape)
    if not shape:
        raise ValueError("input_shape=[]: should have one side at least; give [1, 28, 28]")
    num_values = math.prod(shape)  # the centre of a class is made in float32
    of_sample = num_values * (1 if dtype == "uint8" else 4) + 8
    memory.check(f"num_samples={num_samples}", num_samples * of_sample)
    memory.check(f"num_classes={num_classes}", num_classes * num_values * 4)
    stream = randomness.stream(seed, "synthetic targets")
    targets = torch.randperm(num_samples, generator=stream) % num_classes
    inputs = _inputs(targets, centers(shape, num_classes, seed) * separation, dtype, seed)
    division = Division(num_samples, classes=targets)
    parts = division.parts(valid=valid, test=test, split_seed=split_seed)
    everything = ArrayDataset(inputs, targets)
    pixels = ImageBatcher(mean=GREY / 255, std=STEP / 255)
    return splits.of_parts(
        everything.subset,
        parts,
        name="synthetic",
        batcher=pixels if dtype == "uint8" else ImageBatcher(mean=0.0, std=1.0, scale=1.0),
        facts={"input_shape": shape, "num_classes": num_classes},
        fingerprint=fingerprint.of_tensors(inputs, targets),
    )


def centers(
    input_shape: Sequence[int], num_classes: int, seed: int
) -> Shaped[Tensor, "classes ..."]:
    """The unit vector of each class."""
    drawn = torch.randn(
        num_classes, *input_shape, generator=randomness.stream(seed, "synthetic classes")
    )
    return torch.nn.functional.normalize(drawn.flatten(1)).view_as(drawn)


def _inputs(
    targets: Tensor, blobs: Tensor, dtype: Literal["uint8", "float32"], seed: int
) -> Tensor:
    inputs = torch.empty(len(targets), *blobs.shape[1:], dtype=getattr(torch, dtype))
    noise = randomness.stream(seed, "synthetic noise")
    for rows, classes in zip(
        torch.split(inputs, ROWS_AT_ONCE), torch.split(targets, ROWS_AT_ONCE), strict=True
    ):
        drawn = blobs[classes] + torch.randn(len(classes), *blobs.shape[1:], generator=noise)
        rows.copy_(drawn if dtype == "float32" else (GREY + STEP * drawn).round_().clamp_(0, 255))
    return inputs

"""Two handwritten digits side by side, labelled with both: multi-label, no download."""

import dataclasses
from typing import Any

import torch

from andiron import errors, randomness
from andiron.data.dataset import ArrayDataset
from andiron.data.sources.digits import digits
from andiron.data.splitting.splits import Splits
from andiron.ranges import Count, Seed, Validation
from andiron.recording import keep_arguments


@keep_arguments
def digit_pairs(*, num_pairs: Count, valid: Validation, split_seed: Seed) -> Splits:
    """`num_pairs` training images of 8x16 pixels, each of two random digits; others in proportion.

    Each part is made from its own digits. Targets are 10 labels, 0 or 1; equal digits make one
    label.
    Raises: DataError if the shipped digits are damaged, or a part would be empty.
    """
    single = digits(valid=valid, split_seed=split_seed)
    parts: dict[str, Any] = {}
    for part in ("train", "valid", "test"):
        of_part: ArrayDataset = getattr(single, part)
        number = num_pairs * len(of_part) // len(single.train)
        if number == 0:
            least = -(-len(single.train) // len(of_part))
            raise errors.DataError(
                f"data.num_pairs={num_pairs}: leaves {part} empty; set at least {least}"
            )
        parts[part] = _pairs(of_part, number, randomness.stream(split_seed, f"pairs/{part}"))
    facts = {"input_shape": (1, 8, 16), "num_classes": 10, "class_names": [*"0123456789"]}
    return dataclasses.replace(single, name="digit_pairs", facts=facts, **parts)


def _pairs(dataset: ArrayDataset, number: int, generator: torch.Generator) -> ArrayDataset:
    left, right = torch.randint(len(dataset), (2, number), generator=generator)
    images = torch.cat([dataset.inputs[left], dataset.inputs[right]], dim=-1)
    labels = torch.zeros(number, 10, dtype=torch.long)
    for side in (left, right):
        labels.scatter_(1, dataset.targets[side][:, None], 1)
    return ArrayDataset(images, labels)

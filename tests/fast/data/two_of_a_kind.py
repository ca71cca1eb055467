"""Two augmentations of a kind, alone or in wrappers, and whether they change samples alike."""

import functools

import torch
from torchvision.transforms import v2

from andiron import data
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset, RawBatch
from andiron.data.loader import DataLoader

SIZE = 400
PLACES = torch.arange(1, 82, dtype=torch.uint8).reshape(1, 1, 9, 9).expand(SIZE, 1, 9, 9)
KINDS = {
    "flip": (data.Flip, {}), "upside_down": (data.Flip, {"horizontal": False}),
    "shift": (data.Shift, {"pixels": 2}), "crop": (data.Crop, {"padding": 2}),
    "mirrored": (data.Crop, {"padding": 2, "border": "mirror"}),
    "rotate": (data.Rotate, {"degrees": 90.0}), "cutout": (data.Cutout, {"size": 3}),
    "torchvision": (data.Torchvision, {"transform": v2.RandomHorizontalFlip()}),
}  # fmt: skip


class Compose:
    """A wrapper of a user's."""

    def __init__(self, *augmentations):
        self.augmentations = augmentations

    def __call__(self, raw, draws):
        for augmentation in self.augmentations:
            raw = augmentation(raw, draws)
        return raw


class Noted:
    """Applies an augmentation to the same pictures as all others, and keeps its results."""

    def __init__(self, augmentation, kept):
        self.augmentation, self.kept = augmentation, kept

    def __call__(self, raw, draws):
        self.kept.append(self.augmentation(RawBatch(PLACES, torch.zeros(SIZE)), draws).inputs)
        return raw


def results(*augmentations):
    """The result of each for the same pictures, in one epoch of a loader."""
    kept = []
    loader = DataLoader(
        ArrayDataset(PLACES, torch.zeros(SIZE)), ImageBatcher(0.0, 1.0), batch_size=SIZE,
        shuffle_seed=1, augmentations=[Noted(augmentation, kept) for augmentation in augmentations],
    )  # fmt: skip
    next(loader.epoch(0))
    return kept


def is_correlated(one, other):
    """Whether more samples than by chance changed alike in both."""
    outcomes = [[str(picture.tolist()) for picture in value] for value in (one, other)]
    alike = sum(map(str.__eq__, *outcomes))
    shares = ({text: outcome.count(text) / SIZE for text in outcome} for outcome in outcomes)
    first, second = shares
    chance = sum(share * second.get(text, 0) for text, share in first.items())
    return alike > SIZE * chance + 5 * (SIZE * chance) ** 0.5 + 5  # five standard deviations


def check_independent(kind, way, *, is_object_used_twice):
    """Asserts that two of the kind, applied in this way, change samples independently."""
    make, options = KINDS[kind]
    (first,) = results(make(**options))
    one = make(**options)
    for other in [make(**options), *([one] if is_object_used_twice else [])]:
        kept = []
        results(*way(one, other, keep=functools.partial(Noted, kept=kept)))
        assert torch.equal(kept[0], first)  # as in a run before
        assert not is_correlated(*kept)

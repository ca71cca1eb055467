"""Augmentations of pictures keep their stored range, have streams of their own, and move no picture
beside targets with places.
"""

import random

import numpy
import pytest
import torch
from torchvision.transforms import v2, RandomChoice, RandomHorizontalFlip, RandomVerticalFlip
from two_of_a_kind import KINDS, Compose, check_independent, is_correlated, results

from andiron import data, errors
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch
from andiron.shell.assembly import targets
from refusals import message_of


@pytest.mark.parametrize("kind", KINDS)
def test_two_of_a_kind_are_independent(kind):
    make, options = KINDS[kind]
    node = {"_target_": f"andiron.data.{make.__name__}", **options}
    if kind != "torchvision":
        built = targets.build_each("augmentation", {"a": node, "b": node}, object, "")
        assert not is_correlated(*results(*built.values()))
    check_independent(kind, lambda *both, keep: [*map(keep, both)], is_object_used_twice=True)
    check_independent(
        kind, lambda *both, keep: [Compose(*map(keep, both))], is_object_used_twice=False
    )


@pytest.mark.parametrize("name", ["sample", "collate", "flip/2"])
def test_streams_have_one_user_whatever_the_name(name):
    draws = Draws(0, 0, torch.arange(3))
    streams = [draws.stream(value, object()) for value in ("flip", "flip", name, name, "flip")]
    assert len({*streams, "sample", "collate"}) == 7


PICTURES = torch.randint(256, (8, 3, 6, 6), dtype=torch.uint8)
MASKS, BOXES = torch.ones(8, 6, 6, dtype=torch.long), torch.ones(8, 5, 4)


@pytest.mark.parametrize("moved", [
    data.Flip(1.0), data.Crop(1), data.Shift(1), data.Rotate(90.0),
    data.Torchvision(v2.RandomHorizontalFlip()), data.Torchvision(RandomVerticalFlip()),
    data.Torchvision([v2.ColorJitter(0.1), v2.RandomApply([v2.RandomRotation(9)])]),
    data.Torchvision(lambda image: image.flip(-1)), data.Torchvision(v2.RandAugment()),
])  # fmt: skip
@pytest.mark.parametrize("places", [
    MASKS, MASKS[:, None].float(), BOXES, [box for box in BOXES],
    [{"boxes": box, "labels": box[:, 0]} for box in BOXES],
    {"mask": MASKS, "class": MASKS[:, 0, 0]},
])  # fmt: skip
def test_a_move_beside_targets_with_places_is_refused(moved, places):
    message = message_of(errors.DataError, moved, RawBatch(PICTURES, places), draws_of(8))
    assert "moves the images, but not their targets" in message
    assert "andiron_lab.masks.OnFields(['inputs', 'targets'], ...)" in message


def draws_of(size, **more):
    return Draws(7, 0, torch.arange(size), **more)


@pytest.mark.parametrize("kept", [
    data.Cutout(2), data.Torchvision([v2.ColorJitter(0.1), v2.GaussianBlur(3)]),
])  # fmt: skip
def test_what_moves_nothing_may_stand_beside_masks(kept):
    assert kept(RawBatch(PICTURES, MASKS), draws_of(8)).targets is MASKS


@pytest.mark.parametrize("fine", [torch.zeros(8), torch.zeros(8, 3), {"a": torch.zeros(8, 2)}])
def test_targets_without_places_may_be_beside_a_move(fine):
    data.Flip()(RawBatch(PICTURES, fine), draws_of(8))


FLOATS = PICTURES / 255
TO_FLOATS = v2.ToDtype(torch.float32, scale=True)


@pytest.mark.parametrize(("transform", "pictures", "words"), [
    (TO_FLOATS, PICTURES, "returns torch.float32 where torch.uint8 is stored"),
    ([TO_FLOATS, v2.Normalize([0.5], [0.5])], PICTURES, "leave out ToDtype, ToTensor and Norm"),
    (v2.ToDtype(torch.int32, scale=True), PICTURES, "v2.ToDtype(torch.uint8, scale=True)"),
    ([v2.ToPILImage(), v2.Compose([v2.ToImage(), TO_FLOATS])], PICTURES, "returns torch.float32"),
    (v2.Normalize([0.485] * 3, [0.229] * 3), FLOATS, "torch.nn.Hardtanh(0, 1)"),
    (v2.ToDtype(torch.float64), FLOATS, "returns torch.float64 where torch.float32 is stored"),
    (v2.ColorJitter(0.5), FLOATS * 2 - 1, "changes colours, for which floats are from 0 to 1"),
])  # fmt: skip
def test_another_type_or_range_is_refused_with_the_line_that_works(transform, pictures, words):
    raw = RawBatch(pictures, torch.zeros(8))
    assert words in message_of(errors.DataError, data.Torchvision(transform), raw, draws_of(8))
    works = [*(transform if isinstance(transform, list) else [transform])]
    if words.startswith("v2."):
        works.append(v2.ToDtype(torch.uint8, scale=True))
    elif "Hardtanh" in words:
        works.append(torch.nn.Hardtanh(0, 1))
    else:
        works = [v2.RandomVerticalFlip()]
    assert data.Torchvision(works)(raw, draws_of(8)).inputs.dtype is pictures.dtype


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("transform", [
    v2.RandomInvert(1.0), v2.RandomAutocontrast(1.0), v2.ColorJitter(0.9), v2.RandomEqualize(1.0),
    v2.RandomHorizontalFlip(1.0), v2.RandomSolarize(128, 1.0),
])  # fmt: skip
def test_pictures_stay_in_a_stored_range_of_sixteen_steps(transform, dtype):
    if dtype is torch.float32 and not isinstance(transform, v2.RandomInvert | v2.ColorJitter):
        return
    pictures = torch.arange(17, dtype=dtype).repeat(8, 1, 17, 1)
    raw = RawBatch(pictures, torch.zeros(8))
    result = data.Torchvision(transform)(raw, draws_of(8, white=16.0)).inputs
    assert result.min() >= 0 and result.max() <= 16.001 and result.dtype is dtype
    if isinstance(transform, v2.RandomInvert | v2.RandomHorizontalFlip):
        assert torch.allclose(result.float(), 16 - pictures.float(), atol=1e-4)  # of float32


def test_the_loader_hands_the_batchers_scale_to_the_draws():
    splits = data.digits(valid=0.1, split_seed=0)
    loader = data.DataLoaderBuilder(splits.batcher).batch_size(100).shuffle(1)
    loader = loader.augment(data.Torchvision(v2.RandomInvert(1.0))).build(splits.train)
    inputs = next(loader.epoch(0)).inputs
    low, high = ((value - splits.batcher.mean) / splits.batcher.std for value in (0, 1))
    assert inputs.min() >= low - 1e-6 and inputs.max() <= high + 1e-6  # of float32


class OwnGenerator:
    def __init__(self):
        self.state = random.Random(3)

    def __call__(self, image):
        return image.flip(-1) if self.state.random() < 0.5 else image


class Seeded(OwnGenerator):
    def set_random_state(self, seed):
        self.state = random.Random(seed)


@pytest.mark.parametrize("transform", [
    RandomChoice([RandomHorizontalFlip(1.0), RandomVerticalFlip(1.0)]), Seeded(),
    lambda image: image.roll(random.randrange(6), -1),
    lambda image: image.flip(-numpy.random.randint(1, 3)),
])  # fmt: skip
def test_every_default_generator_is_seeded_and_restored(transform):
    states = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state()
    one, other = (
        data.Torchvision(transform)(RawBatch(PICTURES, torch.zeros(8)), draws_of(8)).inputs
        for _ in range(2)
    )
    assert torch.equal(one, other)
    assert random.getstate() == states[0]
    assert numpy.random.get_state()[1].tolist() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])


def test_a_generator_of_a_transforms_own_is_refused_with_the_remedy():
    transform = data.Torchvision(OwnGenerator())

    def epochs():
        for epoch in range(20):
            transform(RawBatch(PICTURES, torch.zeros(8)), Draws(7, epoch, torch.arange(8)))

    message = message_of(errors.DataError, epochs)
    assert "gives two results for one seed" in message and "set_random_state(seed)" in message

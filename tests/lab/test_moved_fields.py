"""Fields of a batch move together: pictures with their masks, each with the same random numbers."""

import pytest
import torch

from andiron import data, errors
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch
from andiron_lab.masks import OnFields
from fast.data.two_of_a_kind import KINDS, Compose, check_independent
from proofs import moved_together
from refusals import message_of

PICTURES = torch.randint(256, (8, 3, 6, 6), dtype=torch.uint8)
MASKS, BOXES = torch.ones(8, 6, 6, dtype=torch.long), torch.ones(8, 5, 4)


def draws_of(size):
    return Draws(7, 0, torch.arange(size))


@pytest.mark.parametrize("kind", KINDS)
def test_two_of_a_kind_are_independent_in_fields(kind):
    check_independent(
        kind,
        lambda *both, keep: [keep(OnFields(["inputs"], entry)) for entry in both],
        is_object_used_twice=True,
    )
    check_independent(
        kind,
        lambda *both, keep: [OnFields(["inputs"], Compose(*map(keep, both)))],
        is_object_used_twice=False,
    )


def test_flips_both_ways_are_independent_with_draws_made_anew():
    batch = {"image": torch.tensor([[0.0, 1.0], [2.0, 3.0]]).expand(1000, 1, 2, 2)}
    for flip in (data.Flip(), data.Flip(horizontal=False)):
        batch = OnFields(["image"], flip)(batch, Draws(0, 0, torch.arange(1000)))
    counts = batch["image"][:, 0, 0, 0].long().bincount(minlength=4)
    assert ((counts > 195) & (counts < 305)).all()  # four standard deviations of 250


@pytest.mark.parametrize("dtype", moved_together.VOID)
@pytest.mark.parametrize("name", moved_together.AUGMENTATIONS)
def test_pictures_and_masks_move_together(name, dtype):
    result = moved_together.measured(moved_together.AUGMENTATIONS[name], 12, dtype)
    assert result.pop("counted") > 0.15
    assert result == {"agreement": 1.0, "invented": 0, "same types": True}


def test_masks_of_pairs_move_by_the_name_that_the_message_gives():
    masks = MASKS * torch.arange(6)
    raw = RawBatch(masks[:, None].byte(), masks)
    moved = OnFields(["inputs", "targets"], data.Flip())(raw, draws_of(8))
    assert torch.equal(moved.inputs[:, 0].long(), moved.targets)
    assert not torch.equal(moved.targets, raw.targets)


@pytest.mark.parametrize(("fields", "words"), [
    ({"boxes": BOXES}, "'boxes': [5, 4]}; resize them, and move boxes, in the data set"),
    ({"boxes": [*BOXES]}, "'boxes' is list"),
    ({}, "'boxes' is NoneType"), ({"boxes": MASKS[:, None, 1:].byte()}, "one height and width"),
    ({"boxes": MASKS[:, None].byte()}, "set masks: [boxes] of OnFields"),
])  # fmt: skip
def test_fields_that_are_neither_picture_nor_mask_are_refused(fields, words):
    batch = {"image": PICTURES, **fields}
    moves = [data.Crop(1)] if "height and" in words else [data.Crop(1), data.Flip()]
    for move in moves:
        moved = OnFields(["image", "boxes"], move)
        assert words in message_of(errors.DataError, moved, batch, draws_of(8))


def test_fields_of_several_sizes_are_flipped_and_small_ones_too():
    small, half = torch.arange(4).repeat(8, 4, 1), torch.arange(3).repeat(8, 3, 1)
    tiny = PICTURES[..., :4, :4]
    for batch in ({"image": PICTURES, "mask": half}, {"image": tiny, "mask": small}):
        moved = OnFields(["image", "mask"], data.Flip(1.0))(batch, draws_of(8))
        assert all(torch.equal(moved[name], field.flip(-1)) for name, field in batch.items())


@pytest.mark.parametrize(("masks", "outside"), [(["mask"], {7, 255}), ([], {0, 7})])
def test_bytes_of_one_channel_are_what_masks_says(masks, outside):
    batch = {"image": PICTURES, "mask": torch.full((8, 1, 6, 6), 7, dtype=torch.uint8)}
    moved = OnFields(["image", "mask"], data.Crop(2), masks=masks)(batch, draws_of(8))
    assert {*moved["mask"].flatten().tolist()} == outside

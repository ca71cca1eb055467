"""Images moved, mirrored, turned and covered: against loops by hand, and the same whoever
gathers them.
"""

import math

import pytest
import torch
from torch.nn import functional

from andiron import errors, randomness
from andiron.data.augment.image_augmentation import Crop, Cutout, Flip, Rotate, Shift, _rotated
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset, RawBatch
from andiron.data.augment.sample_random import Draws
from andiron.data.loader import DataLoader
from refusals import message_of

SIZE = 23
IMAGES = torch.randint(
    1, 256, (SIZE, 3, 7, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
)  # no zeros
TARGETS = torch.arange(SIZE) % 5
EVERY = [
    Shift(2), Crop(3), Crop(3, "mirror"), Flip(), Flip(0.3, horizontal=False), Rotate(40.0),
    Cutout(4), Cutout(3, 9),
]  # fmt: skip
EACH = pytest.mark.parametrize("augmentation", EVERY, ids=repr)


def apply(augmentation, images=IMAGES, *, epoch=0, indices=None, seed=7):
    """The images after the augmentation, as those at `indices` of the data set."""
    indices = torch.arange(len(images)) if indices is None else torch.as_tensor(indices)
    return augmentation(
        RawBatch(images, torch.zeros(len(images), dtype=torch.long)), Draws(seed, epoch, indices)
    ).inputs


def below(number, name, *, size=SIZE, epoch=0, count=2):
    """The whole numbers that a sample draws, by hand."""
    uniform = randomness.uniform(7, name, epoch, torch.arange(size), count)
    return [[math.floor(value * number) for value in row] for row in uniform.tolist()]


@EACH
def test_an_augmented_image_depends_only_on_seed_epoch_and_index(augmentation):
    whole = apply(augmentation)
    shuffled = torch.randperm(SIZE, generator=torch.Generator().manual_seed(0))
    assert torch.equal(apply(augmentation, IMAGES[shuffled], indices=shuffled), whole[shuffled])
    for index in (0, 4, SIZE - 1):
        assert torch.equal(apply(augmentation, IMAGES[[index]], indices=[index]), whole[[index]])
    assert torch.equal(apply(augmentation), whole)


@EACH
def test_epochs_and_seeds_differ(augmentation):
    outcomes = [apply(augmentation), apply(augmentation, epoch=1), apply(augmentation, seed=8)]
    assert not any(torch.equal(a, b) for at, a in enumerate(outcomes) for b in outcomes[:at])


@EACH
def test_the_stored_images_stay_as_they_are_and_targets_go_through(augmentation):
    images, targets = IMAGES.clone(), torch.arange(SIZE)
    augmented = augmentation(RawBatch(images, targets), Draws(7, 0, torch.arange(SIZE)))
    assert torch.equal(images, IMAGES)
    assert augmented.targets is targets
    assert augmented.inputs.shape == IMAGES.shape


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bytes_and_floats_become_the_same_image_each_of_its_own_type(augmentation, dtype):
    of_bytes, of_floats = apply(augmentation), apply(augmentation, IMAGES.to(dtype))
    assert (of_bytes.dtype, of_floats.dtype) == (torch.uint8, dtype)
    if isinstance(augmentation, Rotate):  # interpolated, so rounded where they are bytes
        # float32 sums of products up to 255
        assert (of_bytes.to(dtype) - of_floats).abs().max() <= 0.5 + 1e-3
    else:
        assert torch.equal(of_bytes.to(dtype), of_floats)


@EACH
def test_a_loader_gives_what_the_draws_give_by_hand(augmentation):
    loader = DataLoader(
        ArrayDataset(IMAGES, TARGETS), ImageBatcher(0.0, 1.0, scale=1.0), batch_size=5,
        shuffle_seed=7, augmentations=[augmentation],
    )  # fmt: skip
    whole = apply(augmentation, epoch=2)
    order = randomness.permutation(SIZE, 7, 2)
    assert torch.equal(torch.cat([batch.inputs for batch in loader.epoch(2)]), whole[order].float())


@pytest.mark.parametrize(
    "augmentation, name", [(Shift(2), "shift"), (Crop(2), "crop")], ids=["shift", "crop"]
)
def test_shift_and_zero_crop_are_a_loop_over_padded_images(augmentation, name):
    expected = []
    for image, (row, column) in zip(IMAGES, below(5, name), strict=True):
        padded = functional.pad(image, (2, 2, 2, 2))
        expected.append(padded[:, row : row + 7, column : column + 9])
    assert torch.equal(apply(augmentation), torch.stack(expected))


def test_a_mirror_crop_is_a_loop_over_images_that_torch_pads_by_reflection():
    expected = []
    for image, (row, column) in zip(IMAGES.float(), below(13, "crop"), strict=True):
        padded = functional.pad(image, (6, 6, 6, 6), mode="reflect")
        expected.append(padded[:, row : row + 7, column : column + 9])
    assert torch.equal(apply(Crop(6, "mirror")), torch.stack(expected).byte())


@pytest.mark.parametrize(
    "augmentation",
    [Shift(0), Crop(0), Crop(0, "mirror"), Flip(0.0), Flip(0), Rotate(0.0)],
    ids=repr,
)
def test_nothing_asked_for_changes_nothing(augmentation):
    assert torch.equal(apply(augmentation), IMAGES)


@pytest.mark.parametrize("horizontal, dimension", [(True, 3), (False, 2)])
def test_a_certain_flip_mirrors_every_image(horizontal, dimension):
    assert torch.equal(apply(Flip(1.0, horizontal)), IMAGES.flip(dimension))


def test_a_flip_mirrors_the_images_whose_number_is_below_the_probability():
    uniform = randomness.uniform(7, "flip", 0, torch.arange(SIZE), 1)[:, 0].tolist()
    expected = [
        image.flip(2) if number < 0.3 else image
        for image, number in zip(IMAGES, uniform, strict=True)
    ]
    assert torch.equal(apply(Flip(0.3)), torch.stack(expected))


@pytest.mark.parametrize("quarters", [1, 2, 3, -1])
@pytest.mark.parametrize("side", [6, 7])
def test_quarter_turns_are_torchs_own(quarters, side):
    images = IMAGES[:, :, :6, :6] if side == 6 else IMAGES[:, :, :7, :7]
    turned = _rotated(images, torch.full((SIZE,), quarters * math.pi / 2))
    assert torch.equal(turned, torch.rot90(images, quarters, (2, 3)))


def test_a_half_turn_of_an_oblong_image_keeps_its_shape():
    assert torch.equal(_rotated(IMAGES, torch.full((SIZE,), math.pi)), IMAGES.flip(2, 3))


def bilinear(image, x, y):
    """The value between four pixels, those outside the image being 0."""
    value = torch.zeros(len(image), dtype=torch.float64)
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                value += image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return value


def test_a_rotation_is_a_loop_over_pixels_between_those_they_come_from():
    images = IMAGES[:3].double()
    angles = randomness.uniform(7, "rotate", 0, torch.arange(3), 1)[:, 0].double() * 2 - 1
    expected = torch.zeros_like(images)
    for number, angle in enumerate((angles * math.radians(40)).tolist()):
        for row in range(7):
            for column in range(9):
                x, y = column - 4, row - 3
                source = (
                    x * math.cos(angle) - y * math.sin(angle),
                    x * math.sin(angle) + y * math.cos(angle),
                )
                expected[number, :, row, column] = bilinear(
                    images[number], source[0] + 4, source[1] + 3
                )
    # places to 2^-21 (float32 up to 8, a few roundings), times slopes of up to 255 a pixel
    torch.testing.assert_close(apply(Rotate(40.0))[:3].double(), expected, rtol=0, atol=0.5 + 1e-3)
    torch.testing.assert_close(apply(Rotate(40.0), images), expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("size", [1, 3, 4, 6])
def test_cutout_is_a_loop_over_squares(size):
    rows = [row for row, _ in below(7, "cutout")]
    columns = [column for _, column in below(9, "cutout")]
    expected = IMAGES.clone()
    for image, row, column in zip(expected, rows, columns, strict=True):
        top, left = row - size // 2, column - size // 2
        image[:, max(0, top) : max(0, top + size), max(0, left) : max(0, left + size)] = 50
    assert torch.equal(apply(Cutout(size, 50)), expected)


@pytest.mark.parametrize("kind", [Shift, Crop, Rotate, Cutout])
def test_two_of_a_kind_draw_apart_under_two_names(kind):
    default = kind(3).name
    assert default == kind.__name__.lower()
    assert torch.equal(apply(kind(3, name=default)), apply(kind(3)))
    assert not torch.equal(apply(kind(3, name="second")), apply(kind(3)))


@pytest.mark.parametrize(("augmentation", "words"), [
    (Shift(7), "shift.pixels=7"), (Crop(7), "crop.padding=7"),
    (Crop(8, "mirror"), "crop.padding=8"),
    # at 13 of 7 pixels the square covers the image wherever its centre lies; from 7 on, wherever it
    # lies in the middle
    (Cutout(7), "cutout.size=7"),
])  # fmt: skip
def test_a_reach_beyond_the_image_is_refused(augmentation, words):
    expected = f"augmentation.{words}: should be below 7, as images are 7x9"
    assert message_of(errors.DataError, apply, augmentation) == expected


@EACH
def test_what_is_no_image_is_refused_by_the_name_of_the_augmentation(augmentation):
    message = message_of(errors.DataError, apply, augmentation, torch.zeros(4, 6))
    assert message.startswith(
        f"augmentation.{augmentation.name}: is for images of [channels, height, width], and a "
        "sample"
    )
    assert message.endswith("here is [6]; leave it out")


@EACH
def test_no_augmentation_waits_for_the_device(augmentation, host_reads):
    draws = Draws(7, 0, torch.arange(SIZE))
    with host_reads() as reads:
        augmentation(RawBatch(IMAGES, TARGETS), draws)
    assert reads.number == 0

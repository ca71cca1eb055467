"""Torchvision's transforms as augmentations: torch seeded by hand, and the same whoever gathers."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torchvision.transforms import v2

from andiron import errors, randomness
from andiron.data.augment.sample_random import Draws
from andiron.data.augment.torchvision_transforms import Torchvision
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset, RawBatch
from andiron.data.loader import DataLoader
from andiron.shell.assembly import targets
from refusals import message_of

SIZE = 11
IMAGES = torch.randint(
    256, (SIZE, 3, 12, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
)
CROP = {"_target_": "torchvision.transforms.v2.RandomResizedCrop", "size": 8}
TRANSFORMS = {
    "one": v2.RandomResizedCrop(8),
    "several": [v2.RandomResizedCrop(8), v2.RandomHorizontalFlip(),
                v2.ColorJitter(0.4, 0.4, 0.4, 0.1)],
    "policy": [v2.RandAugment(), v2.RandomErasing(p=1.0)],
}  # fmt: skip
EACH = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


def apply(augmentation, images=IMAGES, *, epoch=3, indices=None):
    indices = torch.arange(len(images)) if indices is None else torch.as_tensor(indices)
    return augmentation(RawBatch(images, indices), Draws(7, epoch, indices)).inputs


def by_hand(transform, *, epoch=3, name="torchvision"):
    """Torch seeded for every image, and torchvision's own composition of transforms."""
    composed = v2.Compose(transform if isinstance(transform, list) else [transform])
    images = []
    for index, image in enumerate(IMAGES):
        torch.manual_seed(randomness.derive(7, name, epoch, index))
        images.append(composed(image))
    return torch.stack(images)


@EACH
def test_an_image_is_transformed_as_with_torch_seeded_by_hand(transform):
    assert torch.equal(apply(Torchvision(transform)), by_hand(transform))
    assert torch.equal(
        apply(Torchvision(transform, name="other"), epoch=4),
        by_hand(transform, epoch=4, name="other"),
    )
    assert not torch.equal(by_hand(transform), by_hand(transform, epoch=4))


@EACH
def test_an_image_becomes_the_same_in_any_batch(transform):
    whole = apply(Torchvision(transform))
    assert torch.equal(
        apply(Torchvision(transform), IMAGES[[4, 0, 9]], indices=[4, 0, 9]), whole[[4, 0, 9]]
    )
    assert torch.equal(apply(Torchvision(transform), IMAGES[[9]], indices=[9]), whole[[9]])


@EACH
def test_torchs_generator_is_left_where_it_was(transform):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    apply(Torchvision(transform))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_worker_processes_give_what_seeding_by_hand_gives(num_workers):
    transform = TRANSFORMS["several"]
    loader = DataLoader(
        ArrayDataset(IMAGES, torch.arange(SIZE)), ImageBatcher(0.0, 1.0, scale=1.0), batch_size=4,
        shuffle_seed=7, num_workers=num_workers, augmentations=[Torchvision(transform)],
    )  # fmt: skip
    expected = by_hand(transform)[randomness.permutation(SIZE, 7, 3)]
    assert torch.equal(torch.cat([batch.inputs for batch in loader.epoch(3)]), expected.float())


@pytest.mark.parametrize(
    "node",
    [CROP, [CROP], [CROP, {"_target_": "torchvision.transforms.v2.RandomVerticalFlip", "p": 1.0}]],
)
def test_nodes_of_a_config_become_the_transforms(node):
    named = {
        "_target_": "andiron.data.augment.torchvision_transforms.Torchvision", "transform": node,
    }  # fmt: skip
    built = targets.build("augmentation.torchvision", named, name="torchvision")
    crop = [v2.RandomResizedCrop(8), v2.RandomVerticalFlip(1.0)][
        : len(node) if isinstance(node, list) else 1
    ]
    assert torch.equal(apply(built), by_hand(crop))


class Elsewhere:
    """Images in something that a thread gathers."""

    def __len__(self):
        return SIZE

    def __getitems__(self, indices):
        return RawBatch(IMAGES[indices], torch.as_tensor(indices))


def test_a_thread_beside_the_step_is_refused_in_favour_of_workers():
    expected = (
        "augmentation.torchvision: would draw from torch's default generator in a thread while "
        "the step draws from it too; set num_workers=1 or more, so that worker processes apply it"
    )
    augmentation = Torchvision(v2.RandomHorizontalFlip())
    with ThreadPoolExecutor(1) as thread, pytest.raises(errors.ConfigError) as raised:
        thread.submit(apply, augmentation).result()
    assert raised.value.problems == (expected,)
    loader = DataLoader(
        Elsewhere(), ImageBatcher(0.0, 1.0), batch_size=4, shuffle_seed=7,
        augmentations=[augmentation],
    )  # fmt: skip
    assert "set num_workers=1 or more" in message_of(errors.ConfigError, next, loader.epoch(0))

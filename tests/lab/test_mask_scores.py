"""IoU and Dice of masks: the numbers of torchmetrics and of segmentation-models-pytorch."""

import pytest
import torch
from segmentation_models_pytorch import metrics as smp
from torch.testing import assert_close
from torchmetrics import JaccardIndex

from andiron.data import Batch
from andiron.distributed import ALONE, Sliced
from andiron.metrics import Tally
from andiron.outputs import IGNORED
from andiron_lab.masks import Dice, IoU, Segmentation, SegmentationOutput, WorstMasks
from threaded_world import in_threads

CLASSES = 5  # the last one is nowhere


def item_of(seed, number, *, void=False, empty=False):
    """Logits [number 9 7 classes] and masks without class 4, in which some pixels may not count."""
    stream = torch.Generator().manual_seed(seed)
    logits = torch.randn(number, 9, 7, CLASSES, generator=stream)
    logits[..., 4] = -99
    targets = torch.randint(4, (number, 9, 7), generator=stream)
    if void:
        targets[torch.rand(targets.shape, generator=stream) < 0.3] = IGNORED
    if empty:
        targets[0] = IGNORED if void else 0
    return SegmentationOutput(torch.tensor(0.0), logits, targets, has_ignored=void)


def measured(items, *metrics):
    tally = Tally(metrics, ALONE)
    for item in items:
        tally.add(item)
    return tally.close_epoch()


@pytest.mark.parametrize("void", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_iou_and_dice_equal_torchmetrics_and_smp(void, empty):
    items = [item_of(seed, 3 - seed, void=void, empty=empty) for seed in range(3)]
    predicted = torch.cat([item.output.argmax(-1) for item in items])
    targets = torch.cat([item.targets for item in items])
    values = measured(
        items, IoU(), Dice(), IoU(average="none", name="c"), Dice(average="none", name="d")
    )
    index = JaccardIndex("multiclass", num_classes=CLASSES, ignore_index=IGNORED)
    assert values["iou"] == pytest.approx(float(index(predicted, targets)), rel=1e-6)
    counts = smp.get_stats(
        predicted, targets, "multiclass", ignore_index=IGNORED, num_classes=CLASSES
    )
    summed = [count.sum(0, keepdim=True) for count in counts]
    # smp counts the absent class as 1; the others are the same
    for name, score in (("c", smp.iou_score), ("d", smp.f1_score)):
        by_class = score(*summed, reduction=None)[0]
        assert by_class[4] == 1 and f"{name}/4" not in values
        own = [values[f"{name}/{number}"] for number in range(4)]
        torch.testing.assert_close(torch.tensor(own), by_class[:4].float())
    assert values["dice"] == pytest.approx(float(by_class[:4].mean()), rel=1e-6)


def test_values_by_hand():
    targets = torch.tensor([[[0, 0, 1, 1]], [[0, 0, 0, 2]]])
    predicted = torch.tensor([[[0, 0, 1, 0]], [[0, 0, 0, 0]]])
    logits = torch.nn.functional.one_hot(predicted, 4).float()
    item = SegmentationOutput(torch.tensor(0.0), logits, targets)
    values = measured([item], IoU(average="none"), Dice(), IoU(name="mean"))
    assert values == {
        "iou/0": 5 / 7, "iou/1": 1 / 2, "iou/2": 0.0, "mean": pytest.approx((5 / 7 + 1 / 2) / 3),
        "dice": pytest.approx((10 / 12 + 2 / 3 + 0) / 3),
    }  # fmt: skip
    void = SegmentationOutput(torch.tensor(0.0), logits, targets * 0 + IGNORED, has_ignored=True)
    assert measured([void], IoU()) == {}


def test_the_task_takes_masks_and_what_is_ignored_counts_nowhere():
    network = torch.nn.Conv2d(3, 4, 1)
    images, targets = torch.randn(2, 3, 5, 6), torch.randint(4, (2, 5, 6), dtype=torch.int16)
    targets[0, :3] = IGNORED
    task = Segmentation(network, num_classes=4)
    output = task.train_step(Batch(images, targets))
    expected = torch.nn.functional.cross_entropy(network(images), targets.long())
    # the pixels are summed in another order
    assert_close(output.item.loss, expected.detach())
    assert output.weight == 2 * 30 - 18
    assert isinstance(output.item, SegmentationOutput)
    assert output.item.output.shape == (2, 5, 6, 4)


def test_iou_and_dice_are_the_same_in_any_number_of_processes():
    items = [item_of(seed, 1 + seed % 3, void=True) for seed in range(9)]
    scores = IoU(), Dice(), IoU(average="none", name="of_class")

    def of_share(world):
        tally = Tally(scores, world)
        for first in range(0, len(items), world.size):
            of_all = dict(enumerate(items[first : first + world.size]))
            own = Sliced({rank: of_all[rank] for rank in {world.rank} & of_all.keys()})
            tally.add(own, own)
        return tally.close_epoch()

    expected = measured(items, *scores)
    assert len(expected) == 6
    for size in (2, 3):
        assert in_threads(of_share, size) == [expected] * size


def test_the_worst_masks_are_shown_beside_their_pictures():
    items = [item_of(seed, 4) for seed in range(2)]
    items[1].output.scatter_(3, items[1].targets[..., None].clamp(0), 99.0)  # all right
    metric = WorstMasks(count=2, class_names=[*"abcde"])
    parts = [metric(item, Batch(torch.rand(4, 1, 9, 7), item.targets)) for item in items]
    shares = parts[0][0]
    value = metric.value(*(torch.cat(part) for part in zip(*parts, strict=True)))
    assert value["pictures"].shape == (3, 2 * 9, 3 * 7)
    assert "| e | purple |" in value["colours"]
    assert (parts[1][0] == 0).all() and (shares > 0).all()

"""Made-up samples: a function of their seed, and exactly as hard to tell apart as they say."""

import hashlib
import importlib
import json
import math

import pytest
import torch

from andiron import errors

# the package has a function of the same name
module = importlib.import_module("andiron_lab.data.synthetic")
synthetic = module.synthetic
CPU = torch.device("cpu")
OPTIONS = {
    "num_samples": 1003, "input_shape": (1, 4, 5), "num_classes": 3, "valid": 0.2, "split_seed": 0,
}  # fmt: skip


def make(**options):
    return synthetic(**{**OPTIONS, **options})


def parts(splits):
    return splits.train, splits.valid, splits.test


def test_the_samples_are_a_function_of_the_seed_alone():
    torch.manual_seed(1)
    one = make(seed=5)
    torch.manual_seed(2)
    again, other = make(seed=5), make(seed=6)
    for mine, same in zip(parts(one), parts(again), strict=True):
        assert torch.equal(mine.inputs, same.inputs)
        assert torch.equal(mine.targets, same.targets)
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert not torch.equal(one.train.inputs, other.train.inputs)


def test_nothing_is_drawn_from_the_default_generator():
    before = torch.get_rng_state()
    make()
    assert torch.equal(torch.get_rng_state(), before)


def test_how_many_are_made_at_once_changes_nothing(monkeypatch):
    before = make()
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 1003)
    assert make().fingerprint == before.fingerprint


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_there_are_as_many_of_each_class_and_as_many_samples_as_asked_for(dtype):
    splits = make(dtype=dtype)
    counts = sum(torch.bincount(part.targets) for part in parts(splits))
    assert sorted(counts.tolist()) == [334, 334, 335]
    # 33.4 or 33.5 of each class, then 60.2 of 301 or 60.4 of 302
    assert [len(part) for part in parts(splits)] == [
        1003 - 3 * 60 - len(splits.test), 180, len(splits.test),
    ]  # fmt: skip
    assert (splits.input_shape, splits.num_classes, splits.name) == ((1, 4, 5), 3, "synthetic")
    assert splits.train.inputs.dtype == getattr(torch, dtype)
    assert json.loads(json.dumps(splits.facts)) == {"input_shape": [1, 4, 5], "num_classes": 3}


def accuracy_of_the_nearest(splits, blobs):
    """How often the class whose middle is nearest is the right one."""
    right = total = 0
    for part in parts(splits):
        batch = splits.batcher(part.__getitems__(range(len(part))), CPU)
        nearest = torch.cdist(batch.inputs.flatten(1), blobs.flatten(1)).argmin(1)
        right, total = right + int((nearest == batch.targets).sum()), total + len(part)
    return right / total


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("shape", [(3,), (1, 6, 7)])
@pytest.mark.parametrize("separation", [0.5, 2.0])
def test_two_classes_are_distinguished_as_often_as_the_formula_says(dtype, shape, separation):
    splits = make(
        num_samples=20_001, input_shape=shape, num_classes=2, separation=separation, dtype=dtype
    )
    unit = module.centers(shape, 2, 0)
    assert unit.flatten(1).norm(dim=1).tolist() == pytest.approx([1.0, 1.0], rel=1e-6)  # float32
    expected = (1 + math.erf(separation * float((unit[0] - unit[1]).norm()) / 2 / math.sqrt(2))) / 2
    # four standard deviations of a share of 20,001, of which one side may be half; pixels are
    # rounded to 1/32 of a deviation
    assert accuracy_of_the_nearest(splits, unit * separation) == pytest.approx(
        expected, abs=4 * 0.5 / math.sqrt(20_001)
    )


def test_pixels_are_the_floats_rounded_and_clipped():
    pixels, floats = make(dtype="uint8", seed=3), make(dtype="float32", seed=3)
    result = pixels.batcher(pixels.train.__getitems__(range(len(pixels.train))), CPU).inputs
    expected = floats.batcher(floats.train.__getitems__(range(len(floats.train))), CPU).inputs
    assert torch.equal(expected, floats.train.inputs)
    # half a step of 1/32, and float32 roundings of values up to 4
    torch.testing.assert_close(result, expected.clamp(-4, 127 / 32), rtol=0, atol=1 / 64 + 1e-5)
    assert not torch.equal(expected, expected.clamp(-4, 127 / 32))


def test_a_linear_classifier_learns_them():
    splits = make(num_samples=3001, input_shape=(1, 12, 12), num_classes=4, separation=8.0)
    batches = [
        splits.batcher(part.__getitems__(range(len(part))), CPU)
        for part in (splits.train, splits.test)
    ]
    (inputs, targets), (others, expected) = [
        (batch.inputs.flatten(1), batch.targets) for batch in batches
    ]
    solution = torch.linalg.lstsq(inputs, torch.nn.functional.one_hot(targets).float()).solution
    assert float(((others @ solution).argmax(1) == expected).float().mean()) > 0.99


def test_the_fingerprint_is_of_the_samples_in_their_stored_order():
    splits = make(num_samples=43, valid="test")
    assert len(splits.fingerprint) == len(hashlib.sha256().hexdigest())
    assert splits.validates_on_test
    assert splits.fingerprint == make(num_samples=43, valid=0.3, split_seed=4).fingerprint


def test_a_part_that_would_be_empty_is_reported_by_its_option():
    with pytest.raises(errors.DataError, match=r"^data\.test=0\.1: divides 9 samples into 9 and 0"):
        make(num_samples=9)

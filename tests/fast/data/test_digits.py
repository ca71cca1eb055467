"""The digits that come with the package: the file, its parts, and what happens when it is not as
shipped.
"""

import importlib

import pytest
import torch

from andiron import data, serialization

# the package has a function of the same name
digits = importlib.import_module("andiron.data.sources.digits")


def shipped():
    return serialization.load_tensors(digits.FILE)


def test_the_images_are_scikit_learns():
    bundle = pytest.importorskip("sklearn.datasets").load_digits()
    images, targets = shipped()["images"], shipped()["targets"]
    assert images.shape == (1797, 1, 8, 8)
    assert torch.equal(images[:, 0].double(), torch.from_numpy(bundle.images))
    assert torch.equal(targets.long(), torch.from_numpy(bundle.target))


def test_a_fifth_of_each_class_is_test_data_and_a_tenth_of_the_rest_valid():
    splits = data.digits(valid=0.1, split_seed=0)
    # classes of 178, 182, 177, 183, 181, 182, 181, 179, 174 and 180 images
    assert torch.bincount(splits.test.targets).tolist() == [36, 36, 35, 37, 36, 36, 36, 36, 35, 36]
    assert torch.bincount(splits.valid.targets).tolist() == [14, 15, 14, 15, 14, 15, 14, 14, 14, 14]
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (1295, 143, 359)


def test_the_same_images_are_held_out_however_the_rest_is_split():
    one, other, all_ = (
        data.digits(valid=0.1, split_seed=0),
        data.digits(valid=0.3, split_seed=1),
        data.digits(valid="test", split_seed=0),
    )
    assert torch.equal(one.test.inputs, other.test.inputs)
    assert torch.equal(one.test.inputs, all_.test.inputs)
    assert torch.equal(all_.valid.inputs, one.test.inputs) and all_.validates_on_test
    assert not torch.equal(one.valid.inputs, data.digits(valid=0.1, split_seed=1).valid.inputs)


def test_mean_and_deviation_are_over_all_pixels():
    batcher = data.digits(valid=0.1, split_seed=0).batcher
    pixels = shipped()["images"].double() / 16
    assert batcher.scale == 16.0
    assert batcher.mean == round(float(pixels.mean()), 4)
    assert batcher.std == round(float(pixels.std(correction=0)), 4)


def test_the_splits_say_what_they_are():
    splits = data.digits(valid=0.1, split_seed=0)
    result = (splits.name, splits.num_classes, splits.input_shape, splits.fingerprint)
    assert result == ("digits", 10, (1, 8, 8), digits.SHA256)


def test_enlarged_images_are_interpolated_and_targets_unchanged():
    small, large = (data.digits(valid=0.1, split_seed=0, size=size) for size in (8, 28))

    assert large.input_shape == (1, 28, 28)
    assert large.train.inputs.dtype == torch.uint8 and int(large.train.inputs.max()) == 16
    expected = torch.nn.functional.interpolate(
        small.train.inputs.float(), size=(28, 28), mode="bilinear"
    )
    assert (large.train.inputs - expected).abs().max() <= 0.5  # rounded
    assert torch.equal(large.train.targets, small.train.targets)

"""Pairs of digits: each half is a digit of that part, each label is one that can be seen."""

import pytest
import torch

from andiron import errors
from andiron.data.sources.digits import digits
from andiron_lab.data.digit_pairs import digit_pairs

SINGLE = digits(valid=0.1, split_seed=0)


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_each_half_is_a_digit_of_its_part_and_labels_are_of_both(part):
    pairs, single = (
        getattr(splits, part)
        for splits in (digit_pairs(num_pairs=500, valid=0.1, split_seed=0), SINGLE)
    )
    labels = {
        image.numpy().tobytes(): int(target)
        for image, target in zip(single.inputs, single.targets, strict=True)
    }

    assert pairs.inputs.shape == (len(pairs), 1, 8, 16)
    for image, result in zip(pairs.inputs, pairs.targets, strict=True):
        halves = {
            labels[half.contiguous().numpy().tobytes()] for half in (image[..., :8], image[..., 8:])
        }
        assert set(result.nonzero().flatten().tolist()) == halves


def test_the_parts_have_the_proportions_of_the_digits():
    pairs = digit_pairs(num_pairs=1295 * 3, valid=0.1, split_seed=0)
    assert [len(getattr(pairs, part)) for part in ("train", "valid", "test")] == [
        1295 * 3, 143 * 3, 359 * 3,
    ]  # fmt: skip
    assert (pairs.input_shape, pairs.num_classes) == ((1, 8, 16), 10)


def test_the_seed_of_the_split_chooses_the_pairs():
    one, again, other = (
        digit_pairs(num_pairs=50, valid=0.1, split_seed=seed).train.inputs for seed in (0, 0, 1)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_too_few_pairs_are_refused_with_the_number_it_takes():
    with pytest.raises(
        errors.DataError, match="^data.num_pairs=9: leaves valid empty; set at least 10$"
    ):
        digit_pairs(num_pairs=9, valid=0.1, split_seed=0)
    assert len(digit_pairs(num_pairs=10, valid=0.1, split_seed=0).valid) == 1

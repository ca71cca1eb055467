"""Folds: a partition, every class dealt evenly, each fold validating once."""

import re
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron.data.batchers import ImageBatcher
from andiron.data.composed.composed_datasets import Mapped, Partial
from andiron.data.composed.derived_splits import kfold
from andiron.data.dataset import ArrayDataset
from andiron.data.splitting.splits import Splits
from andiron.data.splitting.stratified import stratified_folds

TARGETS = torch.tensor([0] * 10 + [1] * 23 + [3] * 7 + [4])[
    torch.randperm(41, generator=torch.Generator().manual_seed(0))
]
LABELS = st.lists(st.integers(-1, 4), min_size=2, max_size=60)  # -1: ignored
SEEDS = st.integers(0, 2**63 - 1)


def dataset(numbers, targets=TARGETS):
    """Samples whose inputs are these numbers, with the targets that stand there."""
    return ArrayDataset(torch.tensor(numbers).unsqueeze(1), targets[numbers])


def splits(**changes):
    """Samples 0 to 28 train, 29 to 35 validate, 36 to 40 test."""
    parts = {
        "train": dataset([*range(29)]),
        "valid": dataset([*range(29, 36)]),
        "test": dataset([*range(36, 41)]),
    }
    batcher = ImageBatcher(mean=0.0, std=1.0)
    facts = {"input_shape": (1,), "num_classes": 5}
    return Splits(
        **{
            "name": "numbers", **parts, "batcher": batcher, "facts": facts, "fingerprint": "abc",
            **changes,
        }
    )  # fmt: skip


def numbers(data):
    """Which samples a data set has, by their inputs."""
    return data.__getitems__(range(len(data))).inputs.flatten().tolist()


@settings(derandomize=True, deadline=None, max_examples=80)
@given(labels=LABELS, seed=SEEDS, data=st.data())
def test_folds_are_a_partition_of_equal_sizes_within_one(labels, seed, data):
    number = data.draw(st.integers(2, len(labels)))
    folds = [fold.tolist() for fold in stratified_folds(torch.tensor(labels), number, seed=seed)]

    assert len(folds) == number
    assert sorted(index for fold in folds for index in fold) == [*range(len(labels))]
    assert all(fold == sorted(fold) for fold in folds)
    assert max(map(len, folds)) - min(map(len, folds)) <= 1


@settings(derandomize=True, deadline=None, max_examples=80)
@given(labels=LABELS, seed=SEEDS, data=st.data())
def test_every_class_is_dealt_to_the_folds_within_one_sample(labels, seed, data):
    number = data.draw(st.integers(2, len(labels)))
    folds = stratified_folds(torch.tensor(labels), number, seed=seed)
    counts = [Counter(labels[index] for index in fold.tolist()) for fold in folds]

    for label in set(labels):
        of_class = [count[label] for count in counts]
        assert max(of_class) - min(of_class) <= 1


def test_the_folds_are_a_function_of_the_targets_and_the_seed_alone():
    torch.manual_seed(1)
    first = [fold.tolist() for fold in stratified_folds(TARGETS, 4, seed=0)]
    torch.manual_seed(2)

    assert [fold.tolist() for fold in stratified_folds(TARGETS, 4, seed=0)] == first
    assert (
        len({tuple(stratified_folds(TARGETS, 4, seed=seed)[0].tolist()) for seed in range(5)}) == 5
    )


@pytest.mark.parametrize("number", [-1, 0, 1, 42])
def test_folds_that_would_be_empty_or_but_one_are_refused(number):
    message = (
        f"num_folds={number}: should be from 2 to 41, the number of samples; 5 and 10 are usual"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        stratified_folds(TARGETS, number, seed=0)


def test_each_non_test_sample_validates_in_one_fold_and_trains_in_others():
    data = splits()
    folds = [kfold(data, fold=fold, num_folds=5, split_seed=3) for fold in range(5)]

    assert sorted(number for fold in folds for number in numbers(fold.valid)) == [*range(36)]
    for fold in folds:
        assert sorted(numbers(fold.train) + numbers(fold.valid)) == [*range(36)]
        assert fold.test is data.test
        for part in (fold.train, fold.valid):
            assert isinstance(part, ArrayDataset)
            assert torch.equal(part.targets, TARGETS[numbers(part)])
    for label in (0, 1, 3):
        counts = [fold.valid.targets.eq(label).sum().item() for fold in folds]
        assert max(counts) - min(counts) <= 1


def test_a_fold_is_named_and_keeps_what_the_data_says_of_itself():
    data = splits()
    fold = kfold(data, fold=2, num_folds=5, split_seed=0)

    assert fold.name == "numbers, fold 2 of 5"
    assert (fold.facts, fold.fingerprint, fold.batcher) == (
        data.facts, data.fingerprint, data.batcher,
    )  # fmt: skip


def test_test_samples_that_also_validated_are_in_no_fold():
    data = splits(valid=splits().test, validates_on_test=True)
    folds = [kfold(data, fold=fold, num_folds=3, split_seed=0) for fold in range(3)]

    assert sorted(number for fold in folds for number in numbers(fold.valid)) == [*range(29)]
    for fold in folds:
        assert sorted(numbers(fold.train) + numbers(fold.valid)) == [*range(29)]
        assert not fold.validates_on_test


def test_data_that_is_not_in_memory_has_the_same_folds():
    in_memory = splits()
    viewed = splits(
        train=Mapped(in_memory.train, lambda raw: raw), valid=Partial(in_memory.valid, range(7))
    )
    for fold in range(3):
        actual, expected = (
            kfold(data, fold=fold, num_folds=3, split_seed=1) for data in (viewed, in_memory)
        )
        assert isinstance(actual.train, Partial)
        assert (numbers(actual.train), numbers(actual.valid)) == (
            numbers(expected.train),
            numbers(expected.valid),
        )


@pytest.mark.parametrize(
    "targets", [TARGETS.float(), TARGETS[:, None].expand(-1, 2)], ids=["numbers", "sequences"]
)
def test_targets_that_are_no_classes_are_divided_by_chance_alone(targets):
    data = splits(train=dataset([*range(29)], targets), valid=dataset([*range(29, 36)], targets))
    expected = stratified_folds(torch.zeros(36, dtype=torch.int64), 4, seed=0)
    for fold in range(4):
        assert (
            numbers(kfold(data, fold=fold, num_folds=4, split_seed=0).valid)
            == expected[fold].tolist()
        )


@pytest.mark.parametrize("fold", [-1, 5])
def test_a_fold_that_there_is_not_is_refused(fold):
    with pytest.raises(ValueError, match=f"^fold={fold}: should be from 0 to 4, as num_folds=5$"):
        kfold(splits(), fold=fold, num_folds=5, split_seed=0)

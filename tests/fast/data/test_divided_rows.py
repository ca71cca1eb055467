"""Parts and folds by the option `split`, against scikit-learn's, on 200 made cases of each kind."""

import collections
import contextlib
import random
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn import model_selection

from andiron import errors
from andiron.data.splitting.divided_rows import Division


def made(case, most=60):
    """A number of rows, their classes, and a group for each."""
    draw = random.Random(case)
    size = draw.randint(20, most)
    classes = torch.tensor([draw.choice([0, 0, 1, 2]) for _ in range(size)])
    groups = [f"patient {draw.randint(0, draw.choice([4, 9, 30]))}" for _ in range(size)]
    return size, classes, groups


def partitioned(size, *parts):
    """Whether the parts have every row once, each in ascending order."""
    rows = [part.tolist() for part in parts]
    return rows == [*map(sorted, rows)] and sorted(sum(rows, [])) == [*range(size)]


@settings(derandomize=True, deadline=None, max_examples=200)
@given(case=st.integers(0, 10**6))
def test_groups_stay_whole_as_in_group_shuffle_split_and_group_k_fold(case):
    size, _, groups = made(case)
    names = sorted({*groups})
    division = Division(size, {"group": "patient"}, values=groups)
    parts = division.parts(valid=0.3, test=0.3, split_seed=case)
    owners = [{groups[row] for row in part.tolist()} for part in parts]
    splitter = model_selection.GroupShuffleSplit(1, test_size=0.3)
    ((_, held_out),) = splitter.split(groups, groups=groups)

    assert partitioned(size, *parts)
    assert not owners[0] & owners[1] and not owners[1] & owners[2] and not owners[0] & owners[2]
    assert abs(len(owners[2]) - len({groups[row] for row in held_out})) <= 1  # it rounds up

    number = min(len(names), 2 + case % 4)
    folds = [division.fold(fold, number, seed=0) for fold in range(number)]
    theirs = model_selection.GroupKFold(number).split(groups, groups=groups)
    for train, valid in folds:
        assert partitioned(size, train, valid)
        assert not {groups[row] for row in train.tolist()} & {groups[row] for row in valid.tolist()}
    assert partitioned(size, torch.cat([valid for _, valid in folds]).sort().values)
    assert sorted(len(valid) for _, valid in folds) == sorted(len(valid) for _, valid in theirs)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(case=st.integers(0, 10**6))
def test_classes_are_within_a_row_of_stratified_k_fold_and_shuffle_split(case):
    size, classes, _ = made(case)
    division = Division(size, "stratified", classes)
    train, valid, test = parts = division.parts(valid=0.2, test=0.2, split_seed=case)
    labels = classes.numpy()
    assert partitioned(size, *parts)
    if min(collections.Counter(labels.tolist()).values()) > 1:
        splitter = model_selection.StratifiedShuffleSplit(1, test_size=len(test))
        ((_, theirs),) = splitter.split(labels, labels)
        mine, other = (np.bincount(labels[rows], minlength=3) for rows in (test, theirs))
        assert abs(mine - other).max() <= 1

    number = 2 + case % 4
    folds = [division.fold(fold, number, seed=case) for fold in range(number)]
    counts = [np.bincount(labels[valid], minlength=3) for _, valid in folds]
    splitter = model_selection.StratifiedKFold(number)
    is_rare = np.bincount(labels).min() < number
    with pytest.warns(UserWarning) if is_rare else contextlib.nullcontext():
        theirs = [
            np.bincount(labels[rows], minlength=3) for _, rows in splitter.split(labels, labels)
        ]
    for train, valid in folds:
        assert partitioned(size, train, valid)
    for label in range(3):
        mine, other = (
            sorted(count[label] for count in of_folds) for of_folds in (counts, theirs)
        )
        assert max(abs(one - two) for one, two in zip(mine, other, strict=True)) <= 1


@settings(derandomize=True, deadline=None, max_examples=200)
@given(case=st.integers(0, 10**6))
def test_rows_in_order_equal_time_series_split(case):
    size, *_ = made(case)
    number, gap = 2 + case % 4, case % 3
    division = Division(size, {"gap": gap})
    folds = [division.fold(fold, number, seed=0) for fold in range(number)]
    theirs = model_selection.TimeSeriesSplit(number, gap=gap).split(range(size))
    for (train, valid), (their_train, their_valid) in zip(folds, theirs, strict=True):
        assert train.tolist() == their_train.tolist()
        assert valid.tolist() == their_valid.tolist()

    train, valid, test = division.parts(valid=0.25, test=0.2, split_seed=case)
    assert [*train.tolist(), *valid.tolist(), *test.tolist()] == sorted({*range(size)} - {
        *range(int(valid[0]) - gap, int(valid[0])), *range(int(test[0]) - gap, int(test[0])),
    })  # fmt: skip
    assert int(test[-1]) == size - 1 and len(test) == size - round(size * 0.8)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(case=st.integers(0, 10**6))
def test_listed_values_are_in_their_part_and_fold_as_groups(case):
    size, _, groups = made(case)
    held = sorted({*groups})
    division = Division(
        size, {"by": "site", "valid": held[:1], "test": held[1:3]}, values=groups
    )
    parts = division.parts(valid=0.1, test=0.1, split_seed=case)
    assert partitioned(size, *parts)
    owners = [{groups[row] for row in part.tolist()} for part in parts]
    assert owners == [{*held[3:]}, {*held[:1]}, {*held[1:3]}]
    train, valid = division.at(torch.cat(parts[:2]).sort().values).fold(0, 2, seed=0)
    assert len(train) + len(valid) == size - len(parts[2])


def test_a_division_depends_on_its_arguments_alone():
    size, classes, groups = made(7)
    for option in (None, "random", "stratified", "in_order", {"gap": 3}, {"group": "patient"}):
        runs = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            random.seed(seed)
            division = Division(size, option, classes, groups)
            parts = division.parts(valid=0.2, test=0.2, split_seed=5)
            runs.append([*map(torch.Tensor.tolist, (*parts, *division.fold(1, 3, seed=5)))])
        assert runs[0] == runs[1]


def test_without_the_option_classes_are_in_proportion_as_by_stratified():
    size, classes, _ = made(3)
    for first, second in ((None, "stratified"), (None, None)):
        options = {"valid": 0.2, "test": 0.2, "split_seed": 1}
        one, two = (Division(size, option, classes).parts(**options) for option in (first, second))
        assert all(map(torch.equal, one, two))
    numbers, drawn = Division(size).parts(**options), Division(size, "random", classes)
    assert all(map(torch.equal, numbers, drawn.parts(**options)))


def test_rows_of_each_class_are_divided_in_order_by_themselves():
    classes = torch.tensor([0] * 10 + [1] * 20)
    train, valid, test = Division(30, "in_order", classes, is_by_class=True).parts(
        valid=0.25, test=0.2, split_seed=0
    )
    assert test.tolist() == [8, 9, 26, 27, 28, 29]
    assert valid.tolist() == [6, 7, 22, 23, 24, 25]
    assert partitioned(30, train, valid, test)


SITES = ["A", "A", "B", "C"]


@pytest.mark.parametrize(("option", "parts", "message"), [
    ({"by": "site", "valid": ["D"], "test": ["A"]}, {},
     "data.split.valid: 'site' has no value 'D'; its values are: A, B, C"),
    ({"by": "site", "valid": ["A"], "test": ["A"]}, {},
     "data.split: 'A' is in valid and in test; list it once"),
    ({"by": "site", "valid": ["A"]}, {},
     "data.split.test=[]: list values of 'site', whose samples are held out; its values are: A, "
     "B, C"),
    ({"by": "site", "valid": ["A"], "test": ["B"]}, {"valid": "test"},
     "data.split.valid=['A']: leave out its list; data.valid or data.valid gives that part"),
    ({"by": "site", "valid": ["A", "B"], "test": ["C"]}, {},
     "data.split: no value of 'site' is left to train; list fewer of them in valid or test; its "
     "values are: A, B, C"),
    ({"group": "site"}, {"test": 0.1},
     "data.test=0.1: divides 3 values of 'site' into 3 and 0; choose a fraction that leaves "
     "values of 'site' on both sides"),
    ({"gap": 3}, {"valid": 0.5, "test": 0.25},
     "data.test=0.25: divides 4 samples into 0 and 1, with a gap of 3 between them; choose a "
     "fraction that leaves samples on both sides"),
])  # fmt: skip
def test_a_split_that_cannot_be_is_refused_by_name(option, parts, message):
    division = Division(4, option, values=SITES)
    with pytest.raises(errors.DataError, match=f"^{re.escape(message)}$"):
        division.parts(**{"valid": 0.4, "test": 0.4, "split_seed": 0, **parts})


def test_rows_without_a_value_and_stratified_numbers_are_refused():
    with pytest.raises(errors.DataError, match=r"^row 1: has no value of 'site', by which"):
        Division(2, {"group": "site"}, values=["A", ""])
    with pytest.raises(errors.DataError, match=r"^data.split: 'site' has 3 values for 2 samples"):
        Division(2, {"group": "site"}, values=[1, 2, 3])
    with pytest.raises(errors.DataError, match=r"^data.split=stratified: the targets are not one"):
        Division(2, "stratified")


@pytest.mark.parametrize(("option", "number", "message"), [
    ({"group": "site"}, 4, "num_folds=4: should be from 2 to 3, the number of values of 'site'"),
    ("in_order", 4, "num_folds=4: 4 samples in order, with a gap of 0, leave none to train"),
    ({"gap": 2}, 2, "num_folds=2: 4 samples in order, with a gap of 2, leave none to train"),
])  # fmt: skip
def test_folds_that_would_be_empty_are_refused(option, number, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Division(4, option, values=SITES).fold(0, number, seed=0)


def test_a_group_in_two_files_is_refused_by_name():
    division = Division(4, {"group": "site"}, values=SITES)
    with pytest.raises(errors.DataError, match=r"^data.split: 'B' of 'site' is in a.csv and in "):
        division.check_apart({"a.csv": SITES, "b.csv": ["B", "D"]})
    division.check_apart({"a.csv": SITES, "b.csv": ["D"]})

"""A data set's parts: disjoint, complete, with every class in proportion."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from andiron import errors
from andiron.data import ArrayDataset, ImageBatcher
from andiron.data.splitting.divided_rows import Division
from andiron.data.splitting.splits import of_training_and_test
from andiron.data.splitting.stratified import stratified_split

TARGETS = torch.tensor([0] * 10 + [1] * 25 + [3] * 7 + [4])[
    torch.randperm(43, generator=torch.Generator().manual_seed(0))
]


def parts(size, classes=None, **options):
    """The indices of each part."""
    return Division(size, classes=classes).parts(**options)


def dataset(targets):
    """Samples whose inputs are their indices."""
    return ArrayDataset(torch.arange(len(targets)).unsqueeze(1), targets)


def split(training, test, **options):
    """The training and the validation part."""
    batcher = ImageBatcher(0.0, 1.0)
    splits = of_training_and_test(
        training, test, name="x", batcher=batcher, facts={}, split_seed=7, **options
    )
    assert splits.test is test
    return splits.train, splits.valid


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    targets=st.lists(st.integers(0, 5), min_size=1, max_size=60)
    | st.integers(1, 60).map(lambda size: [0] * size),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**63 - 1),
)
def test_the_two_parts_are_disjoint_and_cover_all(targets, fraction, seed):
    kept, held = stratified_split(torch.tensor(targets), fraction, seed)
    assert kept.tolist() == sorted(kept.tolist())
    assert held.tolist() == sorted(held.tolist())
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(targets)))
    assert len({*targets}) > 1 or len(held) == round(len(targets) * fraction)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=2, max_size=30).filter(any),
    fraction=st.floats(0.01, 0.99),
    of_each=st.booleans(),
)
def test_the_total_is_right_and_each_class_in_proportion(sizes, fraction, of_each):
    targets = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    kept, held = stratified_split(targets, fraction, 0, of_each=of_each)
    exact, rounded = sum(sizes) * fraction, [round(size * fraction) for size in sizes]
    counts = torch.bincount(targets[held], minlength=len(sizes)).tolist()

    assert abs(len(held) - exact) < 1
    if len(held) == sum(rounded) and not of_each:
        assert counts == rounded
    several, present = sum(size > 1 for size in sizes), sum(size > 0 for size in sizes)
    if of_each and several <= len(held) and present <= len(kept):
        both = zip(sizes, counts, strict=True)
        assert all(0 < count < size for size, count in both if size > 1)
    elif not of_each:  # one fraction of every class, rounded
        shares = [((n - 0.5) / size, (n + 0.5) / size) for size, n in zip(sizes, counts) if size]
        assert max(low for low, _ in shares) <= min(high for _, high in shares)


@pytest.mark.parametrize("sizes, fraction, number", [
    ([15] * 100, 0.1, 150), ([25] * 100, 0.1, 250), ([3] * 100, 0.5, 150), ([4] * 100, 0.1, 40),
])  # fmt: skip
def test_many_small_classes_give_the_fraction_of_all(sizes, fraction, number):
    targets = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    for of_each in (True, False):
        assert len(stratified_split(targets, fraction, 3, of_each=of_each)[1]) == number


def test_a_small_class_is_in_every_part_where_it_can_be():
    for rare, expected in (4, [2, 1, 1]), (3, [1, 1, 1]), (2, [1, 0, 1]), (1, [1, 0, 0]):
        classes = torch.tensor([0] * 200 + [1] * 200 + [2] * rare)
        result = parts(len(classes), valid=0.1, test=0.1, split_seed=0, classes=classes)
        assert [int((classes[rows] == 2).sum()) for rows in result] == expected
        assert [len(rows) for rows in result][1:] == [36, 40]


def test_the_split_is_a_function_of_its_seed_alone():
    torch.manual_seed(1)
    first = stratified_split(TARGETS, 0.2, 0)
    torch.manual_seed(2)
    again = stratified_split(TARGETS, 0.2, 0)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    held = {tuple(stratified_split(TARGETS, 0.2, seed)[1].tolist()) for seed in range(5)}
    assert len(held) == 5


def test_held_out_samples_equal_the_part_of_the_split():
    training, test = dataset(TARGETS), dataset(TARGETS[:3])
    train, valid = split(training, test, valid=0.2)
    kept, held = stratified_split(TARGETS, 0.2, 7)
    assert torch.equal(train.inputs.flatten(), kept)
    assert torch.equal(valid.inputs.flatten(), held)
    assert torch.equal(train.targets, TARGETS[kept])
    assert torch.equal(valid.targets, TARGETS[held])


def test_validating_on_the_test_set_trains_on_all_training_data():
    training, test = dataset(TARGETS), dataset(TARGETS[:3])
    train, valid = split(training, test, valid="test")
    assert train is training
    assert valid is test


@pytest.mark.parametrize("valid, kept, held", [(0.1, 3, 0), (0.9, 0, 3)])
def test_a_fraction_that_leaves_a_part_empty_is_refused(valid, kept, held):
    with pytest.raises(errors.DataError) as raised:
        split(dataset(torch.tensor([0, 1, 2])), dataset(torch.tensor([0])), valid=valid)
    assert str(raised.value) == (
        f"data.valid={valid}: divides 3 samples into {kept} and {held}; "
        "choose a fraction that leaves samples on both sides"
    )


CLASSES = torch.tensor([0] * 20 + [1] * 50 + [2] * 33)


@pytest.mark.parametrize("classes", [None, CLASSES], ids=["numbers", "classes"])
def test_the_three_parts_make_up_all_samples(classes):
    result = parts(103, valid=0.2, test=0.1, split_seed=5, classes=classes)
    assert torch.cat(result).sort().values.tolist() == list(range(103))
    # numbers: 10.3 of 103, 18.6 of 93; classes: 2 + 5 + 3 of 20 + 50 + 33, then 4 + 9 + 6 of 18 +
    # 45 + 30
    assert [len(part) for part in result] == ([74, 19, 10])
    of_each = [torch.bincount(CLASSES[part]).tolist() for part in result]
    assert classes is None or of_each == [[14, 36, 24], [4, 9, 6], [2, 5, 3]]


@pytest.mark.parametrize("classes", [None, CLASSES], ids=["numbers", "classes"])
def test_the_seed_moves_what_validates_and_never_what_tests(classes):
    one, other = (
        parts(103, valid=0.2, test=0.1, split_seed=seed, classes=classes) for seed in (1, 2)
    )
    assert torch.equal(one.test, other.test)
    assert not torch.equal(one.valid, other.valid)


def test_validating_on_the_test_part_trains_on_everything_else():
    result = parts(103, valid="test", test=0.1, split_seed=5)
    assert torch.equal(result.valid, result.test)
    assert torch.cat([result.train, result.test]).sort().values.tolist() == list(range(103))


@pytest.mark.parametrize("valid, test, said", [
    (0.5, 0.1, "data.test=0.1: divides 4 samples into 4 and 0"),
    (0.5, 0.9, "data.test=0.9: divides 4 samples into 0 and 4"),
    (0.1, 0.3, "data.valid=0.1: divides 3 samples into 3 and 0"),
    (0.9, 0.3, "data.valid=0.9: divides 3 samples into 0 and 3"),
])  # fmt: skip
def test_a_part_that_would_be_empty_is_reported_by_its_option(valid, test, said):
    with pytest.raises(errors.DataError) as raised:
        parts(4, valid=valid, test=test, split_seed=0)
    assert str(raised.value) == f"{said}; choose a fraction that leaves samples on both sides"

"""Three parts of one data set: disjoint, complete, and the test part the same for every seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron import errors
from andiron.data.splitting.splits import parts, stratified_split

CLASSES = torch.tensor([0] * 20 + [1] * 50 + [2] * 33)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(size=st.integers(1, 60), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 2**63 - 1))
def test_a_split_of_one_class_is_disjoint_complete_ascending_and_sized(
    size, fraction, seed
):
    rest, held = stratified_split(torch.zeros(size, dtype=torch.long), fraction, seed)
    assert len(held) == round(size * fraction)
    assert (rest.tolist(), held.tolist()) == (sorted(rest.tolist()), sorted(held.tolist()))
    assert sorted(rest.tolist() + held.tolist()) == list(range(size))


@pytest.mark.parametrize("classes", [None, CLASSES], ids=["numbers", "classes"])
def test_the_three_parts_make_up_all_samples(classes):
    found = parts(103, valid=0.2, test=0.1, split_seed=5, classes=classes)
    assert torch.cat(found).sort().values.tolist() == list(range(103))
    # numbers: 10.3 of 103, 18.6 of 93; classes: 2 + 5 + 3 of 20 + 50 + 33, then 4 + 9 + 6 of 18 +
    # 45 + 30
    assert [len(part) for part in found] == ([74, 19, 10])


def test_every_part_has_its_share_of_every_class():
    found = parts(103, valid=0.2, test=0.1, split_seed=5, classes=CLASSES)
    assert [torch.bincount(CLASSES[part]).tolist() for part in found] == [
        [14, 36, 24], [4, 9, 6], [2, 5, 3],
    ]  # fmt: skip


@pytest.mark.parametrize("classes", [None, CLASSES], ids=["numbers", "classes"])
def test_the_seed_moves_what_validates_and_never_what_tests(classes):
    one, other = (
        parts(103, valid=0.2, test=0.1, split_seed=seed, classes=classes) for seed in (1, 2)
    )
    assert torch.equal(one.test, other.test)
    assert not torch.equal(one.valid, other.valid)


def test_validating_on_the_test_part_trains_on_everything_else():
    found = parts(103, valid="test", test=0.1, split_seed=5)
    assert torch.equal(found.valid, found.test)
    assert torch.cat([found.train, found.test]).sort().values.tolist() == list(range(103))


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

"""Views of data sets: their laws, each against the same by hand, and the same samples whatever the
batch.
"""


import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import ArrayDataset, Dataset, RawBatch
from andiron.data.composed.composed_datasets import (
    Concatenated, Mapped, Partial, chosen, sample_name,
)  # fmt: skip
from refusals import message_of

INPUTS = torch.arange(11 * 2, dtype=torch.uint8).view(11, 1, 2)
TARGETS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])
WHOLE = ArrayDataset(INPUTS, TARGETS)


def doubled(raw):
    return RawBatch(raw.inputs * 2, -raw.targets)


def parts(*ends):
    """The whole cut at these places."""
    cuts = [0, *ends, len(WHOLE)]
    return [Partial(WHOLE, range(start, end)) for start, end in zip(cuts, cuts[1:])]


VIEWS = {
    "partial": Partial(WHOLE, [7, 0, 0, 10, 3]),
    "mapped": Mapped(WHOLE, doubled),
    "concatenated": Concatenated([Partial(WHOLE, [9, 2]), WHOLE, Partial(WHOLE, range(4, 7))]),
    "nested": Partial(Concatenated([Mapped(WHOLE, doubled), Partial(WHOLE, [1, 0])]), range(2, 9)),
}


def every(dataset):
    return dataset.__getitems__(range(len(dataset)))


def same(actual, expected):
    return all(
        torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(actual, expected, strict=True)
    )


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_a_data_set(name):
    view = VIEWS[name]
    assert isinstance(view, Dataset)
    assert len(every(view).inputs) == len(every(view).targets) == len(view)
    assert name not in ("partial", "concatenated") or torch.equal(view.targets, every(view).targets)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(name=st.sampled_from([*VIEWS]), data=st.data())
def test_samples_are_equal_in_any_batch_and_order(name, data):
    view = VIEWS[name]
    asked = data.draw(st.lists(st.integers(0, len(view) - 1), max_size=9))

    result = view.__getitems__(torch.tensor(asked, dtype=torch.int64))
    assert same(result, view.__getitems__(asked))
    assert same(result, (tensor[asked] for tensor in every(view)))


def test_targets_that_only_a_gather_knows_are_not_given():
    mapped = Mapped(WHOLE, doubled)
    assert not hasattr(mapped, "targets")
    for view in (Partial(mapped, [0]), Concatenated([WHOLE, mapped])):
        assert view.targets is None


def test_a_part_has_the_samples_at_its_indices_in_their_order():
    result = every(Partial(WHOLE, [7, 0, 0]))
    assert result.targets.tolist() == [6, 3, 3]
    assert result.inputs.tolist() == [[[14, 15]], [[0, 1]], [[0, 1]]]
    assert every(Partial(WHOLE, range(4, 7))).targets.tolist() == [5, 9, 2]
    assert len(Partial(WHOLE, [])) == 0


def test_a_part_of_a_part_is_the_part_at_the_composed_indices():
    outer, inner = torch.tensor([7, 2, 9, 4]), [3, 0, 0]
    assert same(every(Partial(Partial(WHOLE, outer), inner)), every(Partial(WHOLE, outer[inner])))


@pytest.mark.parametrize("ends", [(), (1,), (4, 5), (2, 3, 10)])
def test_the_parts_concatenated_are_the_whole(ends):
    assert same(every(Concatenated(parts(*ends))), every(WHOLE))


class Counting:
    """A data set that remembers what it was asked for."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.asked = []

    def __len__(self):
        return len(self.dataset)

    def __getitems__(self, indices):
        self.asked.append(indices if isinstance(indices, list) else indices.tolist())
        return self.dataset.__getitems__(indices)


def test_a_batch_is_one_gather_from_each_data_set_that_has_a_part_in_it():
    counting = [Counting(part) for part in parts(3, 8)]
    whole = Concatenated(counting)
    for part in counting:
        part.asked.clear()

    assert whole.__getitems__([9, 1, 2, 10, 1]).targets.tolist() == [3, 1, 4, 5, 1]
    assert [part.asked for part in counting] == [[[1, 2, 1]], [], [[1, 2]]]


def test_each_sample_of_a_concatenation_has_its_own_draws():
    class Drawn(ArrayDataset):
        def drawn(self, indices, draws):
            return RawBatch(draws.indices, self.targets[indices])

    asked = torch.tensor([15, 3, 20, 0, 11])
    whole = Concatenated([Drawn(INPUTS, TARGETS), Drawn(INPUTS, TARGETS)])
    assert torch.equal(whole.drawn(asked, Draws(0, 0, asked)).inputs, asked)


def test_mapping_the_identity_changes_nothing_and_mappings_compose():
    assert same(every(Mapped(WHOLE, lambda raw: raw)), every(WHOLE))
    assert same(every(Mapped(Mapped(WHOLE, doubled), doubled)), (INPUTS * 4, TARGETS))


def test_a_view_has_the_names_of_its_samples():
    class Named(ArrayDataset):
        def sample_name(self, index):
            return f"{index}.png"

    named, unnamed = Named(torch.zeros(3), torch.zeros(3)), ArrayDataset(*torch.zeros(2, 2))
    assert sample_name(Partial(named, [2, 0]), 0) == "2.png"
    assert sample_name(Mapped(named, lambda raw: raw), 1) == "1.png"
    joined = Concatenated([named, unnamed, Partial(named, [1])])
    names = [sample_name(joined, index) for index in range(6)]
    assert names == ["0.png", "1.png", "2.png", None, None, "1.png"]
    assert sample_name(unnamed, 0) is None


def test_chosen_samples_of_memory_stay_in_memory_and_others_are_partial():
    assert isinstance(chosen(WHOLE, [4, 4]), ArrayDataset)
    assert isinstance(chosen(Mapped(WHOLE, doubled), [4, 4]), Partial)
    for dataset in (WHOLE, Mapped(WHOLE, doubled)):
        assert same(every(chosen(dataset, [4, 4, 1])), every(Partial(dataset, [4, 4, 1])))


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("wrong", [-1, 100])
def test_an_index_that_no_sample_has_is_refused(view, wrong):
    assert message_of(IndexError, view.__getitems__, [0, wrong]).startswith(
        f"sample {wrong}: there are {len(view)}, counted from 0; negative ones do not count from"
    )


@pytest.mark.parametrize("make", [Partial, chosen])
@pytest.mark.parametrize("wrong", [-1, 11])
def test_a_part_of_samples_that_there_are_not_is_refused_when_it_is_made(make, wrong):
    words = f"sample {wrong}: there are 11, counted from 0"
    assert message_of(IndexError, make, WHOLE, [3, wrong]).startswith(words)


def test_a_mask_is_no_indices():
    message = message_of(TypeError, Partial, WHOLE, TARGETS == 5)
    assert message.startswith("indices are torch.bool: ")
    assert message.endswith("a mask gives mask.nonzero().flatten()")


@pytest.mark.parametrize("datasets, message", [
    ([], "no data set to concatenate; give at least one"),
    ([WHOLE, Partial(WHOLE, [])], "data set 1 of 2 is empty, counted from 0; leave it out"),
    ([WHOLE, WHOLE, ArrayDataset(INPUTS.flatten(1), TARGETS)],
     "data set 2 has inputs [2, 'torch.uint8'] and targets ['torch.int64'], data set 0 has "
     "inputs [1, 2, 'torch.uint8'] and targets ['torch.int64']; give all the same shapes and "),
    ([WHOLE, ArrayDataset(INPUTS.float(), TARGETS)],
     "data set 1 has inputs [1, 2, 'torch.float32'] and targets ['torch.int64'], data set 0 has "),
])  # fmt: skip
def test_data_sets_that_do_not_fit_together_are_refused(datasets, message):
    assert message_of(ValueError, Concatenated, datasets).startswith(message)

"""IterableDatasets: samples by position, in the order of the stream, wherever they are gathered."""

import pickle
import random
from typing import ClassVar

import pytest
import torch
from torch.utils.data import IterableDataset, get_worker_info

from andiron import errors
from andiron.data import DataLoader, balanced, from_torch, kfold, partial, torch_dataset
from andiron.distributed import Sliced, World
from refusals import message_of


class Spirals(IterableDataset):
    """Samples (number of the pass, place, a random number) and a class; 10 in a pass."""

    def __init__(self, size=10):
        self.size, self.passes = size, 0

    def set_epoch(self, number):
        self.passes = number

    def __iter__(self):
        assert get_worker_info() is None  # all processes read all samples
        for place in range(self.size):
            noise = torch.rand(()) + random.random()
            yield torch.tensor([float(self.passes), float(place), float(noise)]), place % 2


PAIRS = [(torch.full((3,), float(place)), place % 2) for place in range(6)]


def load(train=None, **options):
    given = {"num_classes": 2, "valid": PAIRS, "test": PAIRS, "samples_per_epoch": 7, **options}
    return torch_dataset(train=train or Spirals(), **given)


def batches(epochs, *, first_batch=0, splits=None, **options):
    splits = splits or load()
    loader = DataLoader(splits.train, splits.batcher, batch_size=3, shuffle_seed=5, **options)
    try:
        return [batch for epoch in epochs for batch in loader.epoch(epoch, first_batch)]
    finally:
        loader.close()


def test_epochs_are_consecutive_samples_and_the_stream_begins_again():
    splits = load()
    assert (len(splits.train), splits.facts) == (7, {"input_shape": [3], "num_classes": 2})
    read = batches([0, 1, 2], splits=splits)
    assert [len(batch.targets) for batch in read] == [3, 3, 1] * 3
    inputs = torch.cat([batch.inputs for batch in read])
    numbers = torch.arange(21.0)
    assert torch.equal(inputs[:, 0], numbers // 10) and torch.equal(inputs[:, 1], numbers % 10)


@pytest.mark.parametrize("first_batch", [0, 2])
def test_a_resumed_epoch_has_the_same_bits(first_batch):
    random.seed(3)
    torch.manual_seed(3)
    before = random.getstate(), torch.get_rng_state()
    whole = batches([0, 1, 2])
    resumed = batches([2], first_batch=first_batch)
    assert len(resumed) == 3 - first_batch
    for batch, expected in zip(resumed, whole[6 + first_batch :], strict=True):
        assert torch.equal(batch.inputs, expected.inputs)
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def test_an_earlier_sample_and_another_process_begin_the_stream_again():
    train = load().train
    first = train.__getitems__([4, 0, 1])
    train.__getitems__([6])
    copy = pickle.loads(pickle.dumps(train))
    for dataset in (train, copy):
        assert torch.equal(dataset.__getitems__([4, 0, 1]).inputs, first.inputs)
    assert first.inputs[:, 1].tolist() == [4, 0, 1]


def test_worker_processes_give_the_same_batches():
    for here, there in zip(batches([0, 1]), batches([0, 1], num_workers=2), strict=True):
        assert torch.equal(here.inputs, there.inputs)


def test_several_processes_have_their_slices_of_the_same_batches():
    whole = batches([0, 1])
    for rank in range(2):
        world = World(rank=rank, size=2, slices=2)
        for batch, sliced in zip(whole, batches([0, 1], world=world), strict=True):
            places = dict(world.parts(range(len(batch.targets))))
            for number, part in sliced.items():
                assert torch.equal(part.inputs, batch.inputs[[*places[number]]])


class Sized(Spirals):
    def __len__(self):
        return self.size


class Ending(IterableDataset):
    """The samples of one pass only."""

    def __init__(self):
        self.samples = iter(PAIRS)

    def __iter__(self):
        return self.samples


def test_a_length_is_the_default_of_samples_per_epoch():
    assert len(load(Sized(10), samples_per_epoch=None).train) == 10


@pytest.mark.parametrize("chosen", [
    lambda splits: balanced(splits, size=None, seed=0),
    lambda splits: partial(splits, fraction=0.5, seed=0),
    lambda splits: kfold(splits, fold=0, num_folds=2, split_seed=0),
])  # fmt: skip
def test_samples_of_a_stream_are_not_chosen_by_index(chosen):
    with pytest.raises(ValueError, match="Spirals is a stream: choose its samples in its __iter__"):
        chosen(load())


def test_a_stream_that_cannot_be_read_again_is_refused():
    train = load(Ending(), samples_per_epoch=4, fingerprint="mine").train
    assert len(train.__getitems__([0, 1, 2, 3]).targets) == 4
    with pytest.raises(errors.DataError, match="pass 2 over it has no sample; have __iter_"):
        train.__getitems__([3, 2, 1, 0])


@pytest.mark.parametrize(("options", "said"), [
    ({"samples_per_epoch": None}, "data.train: Spirals is an IterableDataset without a length"),
    ({"valid": 0.1}, "data.valid=0.1: no fraction can be taken from an IterableDataset; give"),
    ({"test": Spirals()}, "data.test: Spirals: is an IterableDataset, whose samples have no"),
    ({"train": PAIRS}, "data.samples_per_epoch: data.train is no IterableDataset, and an epo"),
])  # fmt: skip
def test_what_a_stream_cannot_do_is_refused(options, said):
    assert message_of(errors.DataError, load, **options).startswith(said)
    with pytest.raises(errors.DataError, match="only data.train of data=torch_dataset may be one"):
        from_torch(Spirals())


def test_validation_may_be_on_the_test_set():
    splits = load(valid="test")
    assert splits.validates_on_test and splits.valid is splits.test


class Skipping(Spirals):
    """40 samples in a pass, of which `first` are left out; `generated` are those that were made."""

    generated: ClassVar[list[int]] = []

    def __init__(self, size=40, first=0, draws=lambda place: False, error=0):
        super().__init__(size)
        self.first, self.draws, self.error = first, draws, error

    def skip(self, number):
        return Skipping(self.size, number + self.error, self.draws, self.error)

    def __iter__(self):
        for place in range(self.first, self.size):
            self.generated.append(place)
            noise = float(torch.rand(())) if self.draws(place) else 0.0
            yield torch.tensor([float(self.passes), float(place), noise]), place % 2


@pytest.mark.parametrize(("stream", "epoch", "most"), [
    (Skipping(90), 1, 70),
    (Skipping(90), 2, 400),  # in the second pass, whose order may be another
    (Skipping(90, draws=lambda place: True), 1, 400),
    (Skipping(90, error=1), 1, 400),
], ids=["skipped", "second pass", "draws", "wrong"])  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"world": World(1, 2, slices=2)}])
def test_samples_before_a_resume_are_skipped_only_to_the_same_bits(stream, epoch, most, options):
    splits = load(stream, samples_per_epoch=40)
    whole = [slices_of(batch) for batch in batches(range(epoch + 1), splits=splits, **options)]
    splits = load(stream, samples_per_epoch=40)
    stream.generated.clear()
    resumed = [*map(slices_of, batches([epoch], first_batch=2, splits=splits, **options))]
    assert len(stream.generated) <= most
    assert resumed == whole[-len(resumed) :]


def slices_of(batch):
    slices = batch.items() if isinstance(batch, Sliced) else [(0, batch)]
    return [(number, part.inputs.tolist(), part.targets.tolist()) for number, part in slices]


def test_random_numbers_after_skipped_samples_end_the_run():
    train = load(Skipping(draws=lambda place: place > 35), samples_per_epoch=40).train
    train.restart()
    train.__getitems__([33, 34])
    with pytest.raises(errors.DataError, match="draws from the default generators by sample 36"):
        train.__getitems__([36])

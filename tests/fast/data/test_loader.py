"""Batches in an order that is a function of (seed, epoch), whoever gathers them."""

import itertools
import multiprocessing
import os
import signal
import threading

import pytest
import torch
from torch.utils.data._utils import signal_handling

from andiron import errors, randomness
from andiron.data import (
    ArrayBatcher, ArrayDataset, DataLoader, DataLoaderBuilder, digits, ImageBatcher, RawBatch,
)  # fmt: skip
from andiron.data.composed.torch_samples import from_torch
from andiron.data.batchers import Gather, Request
from andiron.data.loading import workers
from andiron.distributed import World

from refusals import message_of
from waiting import until

SIZE, BATCH_SIZE = 23, 5  # the last batch has 3
INPUTS = torch.randint(
    256, (SIZE, 1, 2, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
)
DATASET = ArrayDataset(INPUTS, torch.arange(SIZE))  # a target is its sample's index
BATCHER = ImageBatcher(mean=0.25, std=0.5)


class Stored:
    """Samples in something that is no ArrayDataset."""

    def __len__(self):
        return len(DATASET)

    def __getitems__(self, indices):
        return DATASET.__getitems__(indices)


def loader(dataset=DATASET, *, num_workers=0, shuffle_seed=3, batch_size=BATCH_SIZE):
    return DataLoader(
        dataset, BATCHER, batch_size=batch_size, shuffle_seed=shuffle_seed, num_workers=num_workers
    )


def same(actual, expected):
    """Whether two lists of batches are equal, tensor by tensor."""
    return len(actual) == len(expected) and all(
        torch.equal(a.inputs, b.inputs) and torch.equal(a.targets, b.targets)
        for a, b in zip(actual, expected, strict=True)
    )


def by_hand(seed, epoch):
    """The epoch's batches from the permutation itself."""
    order = randomness.permutation(SIZE, seed, epoch)
    return [
        BATCHER(DATASET.__getitems__(order[at : at + BATCH_SIZE]), torch.device("cpu"))
        for at in range(0, SIZE, BATCH_SIZE)
    ]


@pytest.mark.parametrize("dataset", [DATASET, Stored()], ids=["in memory", "stored"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_are_a_function_of_seed_and_epoch_and_go_on_from_any(dataset, num_workers):
    batches, before = loader(dataset, num_workers=num_workers), torch.get_rng_state()
    for epoch in (0, 1, 5, 1):  # one loader, its workers used again; an epoch comes back as it was
        assert same(list(batches.epoch(epoch)), by_hand(3, epoch))
    for first in range(len(batches) + 1):
        assert same(list(batches.epoch(2, first)), by_hand(3, 2)[first:])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dataset", [DATASET, Stored()], ids=["in memory", "stored"])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("first", [0, 3])
def test_augmented_samples_are_a_function_of_seed_epoch_and_index(dataset, num_workers, first):
    def brighter(raw, draws):
        return raw._replace(
            inputs=(raw.inputs * draws.uniform("light")[:, :, None, None]).to(torch.uint8)
        )

    batches = DataLoader(
        dataset, BATCHER, batch_size=5, shuffle_seed=3, num_workers=num_workers,
        augmentations=[brighter],
    )  # fmt: skip
    for epoch in (0, 4):
        result = list(batches.epoch(epoch, first))
        assert len(result) == 5 - first
        for batch in result:
            light = randomness.uniform(3, "light", epoch, batch.targets, 1)[:, :, None, None]
            expected = BATCHER(
                RawBatch((INPUTS[batch.targets] * light).to(torch.uint8), batch.targets),
                torch.device("cpu"),
            )
            assert torch.equal(batch.inputs, expected.inputs)
    assert torch.equal(batches.batch(4, 2).inputs, list(batches.epoch(4))[2].inputs)


def test_augmentations_without_a_seed_and_a_shuffled_order_without_an_epoch_are_refused():
    words = "augmentations need the shuffle seed: pass one, or leave them out"
    own = [lambda raw, draws: raw]
    assert message_of(ValueError, DataLoader, DATASET, BATCHER, augmentations=own) == words
    words = (
        "a shuffled loader has an order for each epoch: iterate over loader.epoch(0), "
        "loader.epoch(1), ..."
    )
    assert message_of(TypeError, iter, loader()) == words


class Watched(Stored):
    """Tells which thread gathered, and how many batches."""

    def __init__(self, fails_at=None):
        self.threads, self.fails_at = [], fails_at

    def __getitems__(self, indices):
        self.threads.append(threading.current_thread().name)
        if len(self.threads) == self.fails_at:
            raise errors.DataError("image 7 is damaged")
        return super().__getitems__(indices)


def test_what_is_not_in_memory_is_gathered_by_a_thread_two_batches_ahead():
    dataset = Watched()
    batches = loader(dataset).epoch(0)
    assert dataset.threads == []
    next(batches)
    until(lambda: len(dataset.threads) >= 3)
    assert len(dataset.threads) == 3  # the one that was given, and two more
    assert all(name.startswith("data") for name in dataset.threads)
    batches.close()
    assert not any(thread.name.startswith("data") for thread in threading.enumerate())


def test_an_error_of_the_thread_comes_at_the_batch_concerned():
    batches = loader(Watched(fails_at=3)).epoch(0)
    assert same([next(batches), next(batches)], by_hand(3, 0)[:2])
    assert message_of(errors.DataError, next, batches) == "image 7 is damaged"


def test_the_path_is_reported_in_words():
    assert loader().path == "in memory on cpu"
    assert loader(Stored()).path == "gathered by a thread ahead of the step"
    assert loader(num_workers=2).path == "gathered by 2 worker processes"


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_left_half_way_does_not_touch_the_next(num_workers):
    batches = loader(num_workers=num_workers)
    for epoch in range(3):
        for number, _ in enumerate(batches.epoch(epoch)):
            if number == 1:
                break
        assert same(list(batches.epoch(epoch + 1)), by_hand(3, epoch + 1))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_overtaken_by_another_never_yields_that_ones_batches(num_workers):
    batches = loader(num_workers=num_workers)
    first = batches.epoch(0)
    next(first)
    assert same(list(batches.epoch(1)), by_hand(3, 1))
    try:
        rest = list(first)
    except RuntimeError:  # to refuse is as good as to go on rightly
        return
    assert same(rest, by_hand(3, 0)[1:])


def test_the_number_of_batches_is_the_number_that_come():
    assert (len(loader()), loader().num_items) == (5, 23)
    for batch_size in range(1, SIZE + 2):
        batches = loader(batch_size=batch_size)
        assert len(list(batches.epoch(0))) == len(batches)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_without_shuffling_the_order_is_the_data_sets_own(num_workers):
    batches = loader(num_workers=num_workers, shuffle_seed=None)
    for pass_ in (batches, batches.epoch(0), batches.epoch(7)):
        assert torch.cat([batch.targets for batch in pass_]).tolist() == list(range(SIZE))


def test_an_empty_data_set_is_refused():
    empty = ArrayDataset(INPUTS[:0], torch.arange(0))
    assert message_of(ValueError, loader, empty) == "the data set is empty: no batch can be formed"


@pytest.mark.parametrize("num_workers", [0, 1, None])
def test_the_builder_makes_what_the_keywords_make(num_workers):
    builder, options, epoch = DataLoaderBuilder(BATCHER), {}, 0
    if num_workers is not None:
        builder.batch_size(5).shuffle(3).num_workers(num_workers).device("cpu")
        options = {"batch_size": 5, "shuffle_seed": 3, "num_workers": num_workers, "device": "cpu"}
        epoch = 2
    built, spelled = builder.build(DATASET), DataLoader(DATASET, BATCHER, **options)
    assert same(list(built.epoch(epoch)), list(spelled.epoch(epoch)))
    for made in (built, spelled):
        seen = made.batch_size, made.shuffle_seed, made.in_memory
        assert seen == ((64, None, True) if num_workers is None else (5, 3, num_workers == 0))
        assert made.device == torch.device("cpu")


@pytest.mark.parametrize("dataset", [DATASET, Stored()], ids=["in memory", "stored"])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_any_batch_of_any_epoch_and_its_indices_are_available_alone(dataset, num_workers):
    made = loader(dataset, num_workers=num_workers)
    for epoch in (2, 0):
        expected = by_hand(3, epoch)
        assert same([made.batch(epoch, number) for number in range(len(made))], expected)
        assert [made.indices(epoch, number) for number in range(len(made))] == [
            batch.targets.tolist() for batch in expected
        ]


class Damaged(Stored):
    """A data set whose sixth sample cannot be read."""

    def __getitems__(self, indices):
        if 5 in torch.as_tensor(indices).tolist():
            raise errors.DataError("image 5 is damaged")
        return super().__getitems__(indices)


def test_an_error_of_a_worker_process_is_the_error_itself():
    batches = loader(Damaged(), num_workers=1)
    assert message_of(errors.DataError, list, batches.epoch(0)) == "image 5 is damaged"
    batches.close()  # the exception holds it, and a garbage collection waits 5 seconds for a worker


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal can be held back")
def test_a_worker_hears_a_signal_to_its_whole_group_once_it_can_answer_it(monkeypatch):
    monkeypatch.setattr(signal_handling, "_set_worker_signal_handlers", torchs_handlers_and_sigterm)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # as a run's own, it goes on
    try:
        assert sum(len(batch.targets) for batch in loader(num_workers=2).epoch(0)) == SIZE
    finally:
        signal.signal(signal.SIGTERM, before)


def torchs_handlers_and_sigterm(set_handlers=signal_handling._set_worker_signal_handlers):
    set_handlers()
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("how", ["closed", "let go"])
def test_the_workers_end_with_their_loader_and_iterating_starts_new_ones(how):
    splits = digits(valid=0.1, split_seed=0)
    loader = DataLoader(splits.valid, splits.batcher, batch_size=7, num_workers=2)
    others = set(multiprocessing.active_children())
    held = loader.epoch(0)
    next(held)
    workers = set(multiprocessing.active_children()) - others
    assert len(workers) == 2
    if how == "closed":
        loader.close()
    else:
        # no garbage collection: one that finds the loader in a cycle waits 5 seconds for a worker
        del loader, held
    assert not any(worker.is_alive() for worker in workers)
    if how == "closed":
        assert sum(len(batch.targets) for batch in loader.epoch(0)) == len(splits.valid)
        loader.close()


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_batches_made_together_are_the_bits_of_each_alone(dtype, first):
    pixels = torch.randint(0, 256, (1000, 1, 8, 9), dtype=torch.uint8).to(dtype)
    dataset = ArrayDataset(pixels, torch.arange(1000))
    loader = DataLoader(dataset, ImageBatcher(0.3, 0.37), batch_size=48, shuffle_seed=1)
    batches = list(loader.epoch(2, first))

    assert batches[0].inputs.untyped_storage().nbytes() > batches[0].inputs.nbytes
    assert len(batches) == len(loader) - first
    for number, batch in enumerate(batches, start=first):
        alone = loader.batch(2, number)
        assert torch.equal(batch.inputs, alone.inputs) and torch.equal(batch.targets, alone.targets)
        assert batch.inputs.data_ptr() % 64 == 0


def test_batches_made_together_hold_a_mebibyte_of_stored_inputs_at_most():
    dataset = ArrayDataset(torch.zeros(600, 3, 32, 32, dtype=torch.uint8), torch.arange(600))
    loader = DataLoader(dataset, ImageBatcher(0.5, 0.5), batch_size=64)

    sizes = {batch.inputs.untyped_storage().nbytes() for batch in loader}
    assert max(sizes) <= 4 * 2**20  # float32 for bytes


def test_a_batch_made_together_with_others_is_changed_alone():
    dataset = ArrayDataset(torch.ones(64, 16), torch.arange(64))
    first, second = DataLoader(dataset, ArrayBatcher(), batch_size=32)
    weight = torch.ones(16, requires_grad=True)
    product = (second.inputs * weight).sum()
    first.inputs.mul_(2)
    product.backward()

    assert torch.equal(weight.grad, torch.full((16,), 32.0))
    assert torch.equal(second.inputs, torch.ones(32, 16))


@pytest.mark.parametrize(
    "change", [{"batch_size": 7}, {"batcher": lambda raw, device: raw}], ids=["unaligned", "own"]
)
def test_batches_are_made_one_by_one_where_bits_or_batcher_are_not_known(change):
    dataset = ArrayDataset(torch.ones(64, 1, 3, 3), torch.arange(64))
    options = {"batcher": ArrayBatcher(), "batch_size": 32} | change
    for batch in DataLoader(dataset, **options):
        assert batch.inputs.untyped_storage().nbytes() == batch.inputs.nbytes


class Ends:
    """Four samples; the third raises what ends a loop."""

    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 2:
            raise self.kind
        return torch.ones(3), index % 2


@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt, SystemExit])
def test_a_data_set_that_ends_a_loop_ends_no_epoch(kind):
    loader = DataLoaderBuilder(ArrayBatcher()).batch_size(2).build(from_torch(Ends(kind)))
    with pytest.raises(errors.AndironError, match=f"Ends.__getitem__ .*{kind.__name__}|sys.exit"):
        with errors.exits_refused(KeyboardInterrupt):
            list(loader.epoch(0))
    of_worker = Gather(from_torch(Ends(kind)), (), 0)[Request(0, [1, 2])]
    assert "Ends.__getitem__" in str(of_worker)


def test_the_bound_is_eight_workers_a_core(monkeypatch):
    monkeypatch.setattr(workers.processor, "cores", lambda: 4)
    assert workers.problem(32) is None
    assert workers.problem(33) == (
        "num_workers=33: at most 32 can run here, where there are 4 processor cores; lower it"
    )


def test_a_loader_with_too_many_workers_is_refused():
    with pytest.raises(ValueError, match="num_workers=100000: at most"):
        DataLoader(
            ArrayDataset(torch.ones(2, 1), torch.ones(2)), ArrayBatcher(), num_workers=100000
        )


def test_a_builder_that_shuffles_asks_for_another_one_for_the_next_loader():
    """Validation data after training data would be shuffled and augmented in silence."""
    builder = DataLoaderBuilder(BATCHER).batch_size(5)
    assert builder.build(DATASET).shuffle_seed is None
    assert builder.shuffle(3).build(DATASET).shuffle_seed == 3
    with pytest.raises(ValueError, match="make a DataLoaderBuilder for each"):
        builder.batch_size(7).build(DATASET)
    assert builder.shuffle(4).build(DATASET).shuffle_seed == 4


class Many:
    """A thousand million samples, each its own index."""

    def __len__(self):
        return 10**9

    def __getitems__(self, indices):
        indices = torch.as_tensor(indices)
        return RawBatch(indices[:, None].float(), indices)


@pytest.mark.parametrize("first", [0, 37 * 10**7 // 7, 9 * 10**8 // 7])
def test_very_many_samples_have_one_order_for_workers_ranks_and_resumes(first):
    def indices(num_workers, rank=0, ranks=1, skipped=0):
        builder = DataLoaderBuilder(ArrayBatcher()).batch_size(7).shuffle(3)
        many = builder.num_workers(num_workers).world(World(rank, ranks)).build(Many())
        batches = itertools.islice(many.epoch(2, first + skipped), 5 - skipped)
        try:
            return [batch if ranks > 1 else batch.targets for batch in batches]
        finally:
            many.close()

    whole = indices(0)
    assert torch.equal(torch.cat(whole), torch.cat(indices(1)))
    assert torch.equal(torch.cat(whole[3:]), torch.cat(indices(0, skipped=3)))
    for ranks in (2, 3):
        divided = zip(*(indices(0, rank, ranks) for rank in range(ranks)), strict=True)
        for batch, parts in zip(whole, divided, strict=True):
            slices = {number: part for sliced in parts for number, part in sliced.items()}
            assert torch.equal(batch, torch.cat([slices[n].targets for n in sorted(slices)]))

"""Data sets written for torch's DataLoader: sample by sample, their random transforms repeat."""

import random
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch.utils.data import IterableDataset, Subset, TensorDataset, default_collate

from andiron import errors, randomness
from andiron.data import ArrayBatcher, DataLoader, RawBatch, digits, from_torch, torch_dataset
from andiron.data.composed.composed_datasets import Concatenated, Mapped, Partial
from andiron.distributed import World
from andiron.plain import memory
from andiron.shell.assembly import components
from refusals import message_of

INPUTS, TARGETS = torch.arange(10.0).view(5, 2), torch.arange(5)
SQUARES = TensorDataset(INPUTS, TARGETS)


class Numbers(torch.utils.data.Dataset):
    """Pairs of a tensor and an int, as torchvision's data sets return them."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return INPUTS[index], index


@pytest.mark.parametrize("dataset", [SQUARES, Subset(SQUARES, range(5)), Numbers()])
@pytest.mark.parametrize("indices", [[3, 1], torch.tensor([4]), range(5)])
def test_samples_equal_the_data_set_in_order(dataset, indices):
    adapted = from_torch(dataset)
    result = adapted.__getitems__(indices)

    chosen = torch.as_tensor(indices)
    assert isinstance(result, RawBatch) and len(adapted) == 5
    assert torch.equal(result.inputs, INPUTS[chosen])
    assert torch.equal(result.targets, TARGETS[chosen])


def test_what_is_not_a_pair_is_as_collated():
    adapted = from_torch([{"x": torch.ones(2)}, {"x": torch.zeros(2)}])

    assert torch.equal(adapted.__getitems__([1, 0])["x"], torch.tensor([[0.0, 0.0], [1.0, 1.0]]))


class Noisy(torch.utils.data.Dataset):
    """Each sample is its index and a number from each of the three default generators."""

    classes = ["even", "odd"]

    def __init__(self, size=11):
        self.targets = [index % 2 for index in range(size)]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        drawn = random.random(), numpy.random.rand(), torch.rand(()).item()
        return torch.tensor([float(index), *drawn]), self.targets[index]


def by_hand(epoch, indices, seed=7):
    rows = []
    for index in indices:
        value = randomness.derive(seed, "sample", epoch, index)
        random.seed(value)
        numpy.random.seed(value % 2**32)
        torch.manual_seed(value)
        rows.append(Noisy()[index][0])
    return torch.stack(rows)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_random_transforms_are_a_function_of_seed_epoch_and_index(num_workers):
    loader = DataLoader(
        from_torch(Noisy()), ArrayBatcher(), batch_size=4, shuffle_seed=7, num_workers=num_workers
    )
    before = random.getstate(), torch.get_rng_state()
    whole = torch.cat([batch.inputs for batch in loader.epoch(3)])
    rest = torch.cat([batch.inputs for batch in loader.epoch(3, first_batch=1)])
    loader.close()

    assert (random.getstate(), True) == (before[0], torch.equal(torch.get_rng_state(), before[1]))
    assert torch.equal(whole, by_hand(3, loader.order(3).tolist()))
    assert torch.equal(rest, whole[4:])


@pytest.mark.parametrize("dataset, places", [
    (Partial(from_torch(Noisy()), [9, 3, 3]), [9, 3, 3]),
    (Mapped(from_torch(Noisy()), lambda raw: raw), range(11)),
    (Concatenated([from_torch(Noisy(4)), from_torch(Noisy(5))]), [0, 1, 2, 3, 0, 1, 2, 3, 4]),
])  # fmt: skip
def test_data_sets_made_of_them_repeat_too(dataset, places):
    loader = DataLoader(dataset, ArrayBatcher(), batch_size=2)
    first, second = (
        torch.cat([batch.inputs.reshape(-1, 4) for batch in loader.epoch(epoch)])
        for epoch in (0, 0)
    )

    assert torch.equal(first, second) and len({tuple(row) for row in first.tolist()}) == len(places)
    assert first[:, 0].tolist() == [*places]


def test_classes_are_read_from_the_data_set_behind_a_subset():
    train, rest = torch.utils.data.random_split(Noisy(60), [40, 20])
    valid, test = torch.utils.data.random_split(rest, [10, 10])
    for part in (train, valid):
        splits = torch_dataset(train=part, valid=valid, test=test)
        assert splits.facts["class_names"] == ["even", "odd"]


def test_parts_are_data_sets_or_fractions_of_every_class():
    splits = torch_dataset(train=Noisy(60), test=Noisy(7), valid=0.2)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [48, 12, 7]
    targets = torch.cat([batch.targets for batch in DataLoader(splits.valid, splits.batcher)])
    assert torch.bincount(targets).tolist() == [6, 6]
    assert splits.facts == {"input_shape": [4], "num_classes": 2, "class_names": ["even", "odd"]}
    assert not splits.validates_on_test
    on_test = torch_dataset(train=Noisy(60), test=Noisy(7), valid="test")
    assert on_test.validates_on_test and on_test.valid is on_test.test
    assert len(on_test.train) == 60


def test_the_seed_chooses_the_samples_that_validate():
    one, other = (torch_dataset(train=Noisy(60), valid=0.2, split_seed=seed) for seed in (0, 1))
    first, second = (part.valid.__getitems__(range(8)).inputs[:, 0] for part in (one, other))
    assert not torch.equal(first, second)


def test_the_fingerprint_is_that_of_lengths_and_samples():
    options = {"train": Noisy(60), "test": Noisy(7)}
    first = torch_dataset(**options).fingerprint
    random.random()
    assert torch_dataset(**options).fingerprint == first
    assert torch_dataset(**{**options, "test": Noisy(8)}).fingerprint != first
    assert torch_dataset(**options, fingerprint="mine").fingerprint == "mine"


def test_float_targets_are_values_and_a_collate_function_makes_the_batch():
    floats = TensorDataset(INPUTS.repeat(9, 1), INPUTS.repeat(9, 1))
    assert torch_dataset(train=floats).facts == {"input_shape": [2], "num_outputs": 2}
    records = [{"x": torch.ones(3) * place, "y": place % 4} for place in range(60)]

    def collate(samples):
        return default_collate([(sample["x"], sample["y"]) for sample in samples])

    splits = torch_dataset(train=records, collate=collate, num_classes=4)
    assert splits.facts == {"input_shape": [3], "num_classes": 4}
    batch = splits.batcher(splits.test.__getitems__([0]), torch.device("cpu"))
    assert batch.inputs[0, 0] % 4 == batch.targets[0]


class Endless(IterableDataset):
    def __iter__(self):
        yield 1


def of_classes(*names):
    """torchvision's ImageFolder of a part that may lack a class."""
    dataset = Noisy(60)
    dataset.classes = [*names]
    return dataset


class OfHub(Noisy):
    def __init__(self, *names):
        super().__init__(60)
        self.features = {"label": SimpleNamespace(names=[*names]), "x": SimpleNamespace()}


@pytest.mark.parametrize("options, said", [
    ({"train": of_classes("cat", "dog", "eel"), "test": of_classes("cat", "eel")},
     "data.test: class 1 in its classes is 'eel', and in data.train 'dog'; number "),
    ({"train": of_classes("a", "b"), "valid_sets": {"other": of_classes("b")}},
     "data.valid_sets: class 0 in its classes is 'b', and in data.train 'a'"),
    ({"train": OfHub("no", "yes"), "valid": OfHub("yes", "no")},
     "data.valid: class 0 in its label is 'yes', and in data.train 'no'"),
    ({"train": Endless()}, "data.train: Endless is an IterableDataset without a length; set "),
    ({"train": Noisy(60), "test": Endless()}, "data.test: Endless: is an IterableDataset"),
    ({"train": object()}, "data.train: object: is not a map-style torch data set; give it "),
    ({"train": []}, "data.train: list is empty; give it samples"),
    ({"train": Numbers()}, "data.train: Numbers has no number of classes"),
    ({"train": [1, 2]}, "data.train: a batch of list is Tensor; its samples should be"),
    ({"train": [(1, 2, "a")]},
     "data.train: a batch of list is list (Tensor, Tensor, tuple); its samples should be"),
    ({"train": Noisy(60), "num_classes": 3}, "data.num_classes=3: Noisy has 2 class names"),
    ({"train": Noisy(), "test": 0.01}, "data.test=0.01: divides 11 samples into 11 and 0; "),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_by_its_part(options, said):
    assert message_of(errors.DataError, torch_dataset, **options).startswith(said)


def test_a_part_may_lack_the_last_classes():
    test, valid = of_classes("a", "b"), of_classes()
    assert torch_dataset(train=of_classes("a", "b", "c"), test=test, valid=valid).num_classes == 3


def test_samples_that_do_not_make_a_batch_are_refused_with_what_to_do():
    with pytest.raises(errors.MismatchError, match="list: its samples do not make a batch: .*obj"):
        torch_dataset(train=[(object(), 0)])


FEW, MANY = torch.tensor([7], dtype=torch.uint8), torch.tensor([300])
MIXED = {
    "bytes": (FEW, MANY), "halves": (torch.tensor([0.5]).half(), torch.tensor([1e6])),
    "integers first": (MANY, torch.tensor([0.25])), "yes first": (FEW > 1, MANY),
    "arrays": (numpy.array([7], "u1"), numpy.array([70_000])),
}  # fmt: skip


class MixedTypes(torch.utils.data.Dataset):
    def __init__(self, small, large, is_pair):
        self.values, self.is_pair = (small, large), is_pair

    def __len__(self):
        return 12

    def __getitem__(self, index):
        value = self.values[index % 3 == 1]
        return (value, index % 2) if self.is_pair else {"n": value}


@pytest.mark.parametrize("is_pair", [True, False])
@pytest.mark.parametrize("kind", MIXED)
def test_samples_of_several_types_make_one_batch_with_workers_and_without(kind, is_pair):
    def values(num_workers):
        dataset = from_torch(MixedTypes(*MIXED[kind], is_pair))
        loader = DataLoader(
            dataset, lambda raw, device: raw, batch_size=4, shuffle_seed=3, num_workers=num_workers
        )
        batches = [batch.inputs if is_pair else batch["n"] for batch in loader.epoch(0)]
        loader.close()
        return [(batch.dtype, batch.tolist()) for batch in batches]

    assert values(0) == values(1)


class OwnGenerator(torch.utils.data.Dataset):
    def __init__(self, size, seed=None):
        self.size, self.own, self.seed = size, numpy.random.default_rng(0), seed

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if self.seed:
            self.own = numpy.random.default_rng(self.seed())
        return torch.tensor([float(self.own.integers(1000))]), index % 2


@pytest.mark.parametrize("seed", [None, lambda: int(torch.randint(2**31, ()))])
def test_samples_that_do_not_repeat_are_named_once_with_the_remedy(seed, caplog):
    made = [
        torch_dataset(train=OwnGenerator(60, seed), num_classes=2, valid=0.2, test=0.2)
        for _ in range(2)
    ]
    warned = [line for line in caplog.messages if "gives other samples for the same seeds" in line]
    assert len(warned) == (0 if seed else 2)  # once a data set
    assert all("set_random_seed" in line and "data.train: OwnGenerator" in line for line in warned)
    assert made[0].fingerprint == made[1].fingerprint


def test_a_mapping_of_splits_is_refused_with_the_lines_to_type():
    splits = type("DatasetDict", (dict,), {})(train=Numbers(), test=Numbers())
    message = message_of(errors.DataError, torch_dataset, train=splits, num_classes=2)
    for words in ("data.train: DatasetDict: holds the splits train, test", "/train for load_from",
                  "split: train for load_dataset"):  # fmt: skip
        assert words in message


@pytest.mark.parametrize(("actual", "is_same"), [
    ([(9, "a"), (9, "a")], True), ([(9, "a"), (9, "b")], False), ([(9, "a"), (8, "a")], False),
])  # fmt: skip
def test_processes_that_read_other_samples_are_refused(actual, is_same):
    splits, world = digits(valid=0.1, split_seed=0), World()
    world.gathered = lambda own: actual
    if is_same:
        components._check_same(splits, world)
        return
    message = message_of(errors.DataError, components._check_same, splits, world)
    assert "divides itself by rank" in message and "nodesplitter=lambda urls: urls" in message


def test_inputs_of_bytes_are_named_with_what_scales_them(caplog):
    pictures, targets = torch.zeros(20, 3, 4, 4, dtype=torch.uint8), torch.arange(20) % 2
    for inputs, is_named in (pictures, True), (pictures.float(), False):
        caplog.clear()
        torch_dataset(train=TensorDataset(inputs, targets), num_classes=2)
        assert ("are bytes, and the network gets 0 to 255" in caplog.text) == is_named


def test_a_sample_that_cannot_be_read_is_named_and_no_shortage_of_memory():
    class Truncated(Numbers):
        def __getitem__(self, index):
            return torch.zeros(2).fill_(1e39 if index == 3 else 0), index

    with pytest.raises(RuntimeError) as raised:
        from_torch(Truncated()).__getitems__([1, 3])
    assert raised.value.__notes__ == ["sample 3 of Truncated cannot be read"]
    assert memory.shortage(raised.value) is None

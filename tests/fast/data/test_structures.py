"""Batches of any structure: found, changed, counted and collated, whatever they are nested in."""

import collections
from collections import UserDict, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import default_collate

from andiron import errors
from andiron.data import Batch, RawBatch, structures
from andiron.data.batchers import ArrayBatcher
from andiron.data.composed.torch_samples import collated, from_torch
from refusals import message_of

CPU = torch.device("cpu")


class Point(NamedTuple):
    x: Any
    y: Any
    z: Any = None


@dataclass
class Record:
    image: Any
    name: str


class Graphs:
    """A stand-in for a PyG Batch: it moves itself, and counts its graphs."""

    def __init__(self, nodes, num_graphs):
        self.nodes, self.num_graphs = nodes, num_graphs

    def to(self, device):
        return Graphs(self.nodes.to(device), self.num_graphs)


class Frame:
    """A DataFrame with a column `to`: an attribute of the object, not of its class."""

    def __init__(self):
        self.to = "a column"

    def to_dict(self):
        raise AssertionError("copied")


def structure(number):
    """Every kind of nesting, of `number` samples."""
    ones = torch.ones(number, 2)
    return {
        "tokens": UserDict(ids=ones, mask=torch.zeros(number)),
        "pair": Point(ones, [torch.ones(place, 4) for place in range(number)]),
        "record": Record(ones, "a name"),
        "boxes": [{"label": torch.tensor([place])} for place in range(number)],
        "graph": Graphs(ones, number),
        "texts": ["a text"] * number,
        "counts": defaultdict(int, n=ones),
        "nothing": None,
        "class": Record,
        "frame": Frame(),
        "scale": torch.tensor(3.0),
    }


def kinds(value):
    named = structures.fields(value)
    if named is not None:
        return type(value), {name: kinds(inner) for name, inner in named.items()}
    if isinstance(value, list | tuple):
        return type(value), [*map(kinds, value)]
    return type(value)


def test_a_map_keeps_every_type_and_changes_every_tensor():
    batch = structure(3)

    def double(leaf):
        return leaf * 2 if isinstance(leaf, torch.Tensor) else leaf

    doubled = structures.mapped(double, batch)
    assert kinds(doubled) == kinds(batch) and doubled["counts"].default_factory is int
    pairs = zip(structures.tensors_in(doubled), structures.tensors_in(batch), strict=True)
    assert all(torch.equal(new, 2 * old) for new, old in pairs)
    assert doubled["frame"] is batch["frame"] and doubled["graph"] is batch["graph"]


def test_the_identity_is_a_law():
    batch = structure(3)
    same = structures.mapped(lambda leaf: leaf, batch)
    assert [*map(id, structures.leaves(same))] == [*map(id, structures.leaves(batch))]


def test_moving_asks_objects_whose_class_has_to_and_no_others():
    batch = structure(2)
    moved = structures.moved(batch, torch.device("meta"))
    assert {tensor.device.type for tensor in structures.tensors_in(moved)} == {"meta"}
    assert moved["graph"].nodes.device.type == "meta" and moved["frame"] is batch["frame"]


@pytest.mark.parametrize("number", [1, 3, 7])
def test_the_samples_of_a_batch_are_counted(number):
    assert structures.size(structure(number)) == number
    assert structures.size((torch.ones(number, 3), [torch.ones(2)] * number)) == number
    assert structures.size(Batch(torch.ones(number), torch.ones(number))) == number
    assert structures.size(Graphs(torch.ones(9), number)) == number
    assert structures.size(torch.ones(number, 5)) == number


@pytest.mark.parametrize("batch, said", [
    ({"loss": torch.tensor(1.0)}, "batch of type dict is unknown (lengths of its fields: loss [])"),
    ({"x": torch.ones(3), "y": torch.ones(2)}, "unknown (lengths of its fields: x [3], y [2])"),
    ({"x": torch.ones(3), "y": [torch.ones(3)]}, "x [3], y [1]"),
])  # fmt: skip
def test_a_batch_without_one_length_is_refused_by_its_fields(batch, said):
    assert said in message_of(errors.DataError, structures.size, batch)


SAMPLES = [
    {"ids": [place, 2, 3], "label": place, "text": "t" * place, "box": [{"a": 1}] * place,
     "words": ["w"] * place, "point": Point(torch.ones(2) * place, place, 1.0), "shape": (place, 2)}
    for place in range(5)
]  # fmt: skip


def test_lists_of_numbers_are_tensors_and_other_lists_are_of_samples():
    batch = collated(SAMPLES)
    assert torch.equal(batch["ids"], torch.tensor([[place, 2, 3] for place in range(5)]))
    assert torch.equal(batch["shape"], torch.tensor([(place, 2) for place in range(5)]))
    assert batch["text"] == tuple(sample["text"] for sample in SAMPLES)
    assert [*batch["box"]] == [sample["box"] for sample in SAMPLES]
    assert [*batch["words"]] == [sample["words"] for sample in SAMPLES]
    assert type(batch["point"]) is Point and torch.equal(batch["point"].y, torch.arange(5))
    assert structures.size(batch) == 5


def test_the_batch_of_parts_is_the_parts_of_the_batch():
    whole, parts = collated(SAMPLES), [collated(SAMPLES[:2]), collated(SAMPLES[2:])]
    for name in ("ids", "label", "shape"):
        assert torch.equal(whole[name], torch.cat([part[name] for part in parts]))


def test_pairs_and_tuples_are_collated_as_by_torch():
    pairs = [(torch.ones(2) * place, place, "name", (torch.ones(1), 2.5)) for place in range(3)]
    ours, torchs = collated(pairs), default_collate(pairs)
    assert all(torch.equal(ours[place], torchs[place]) for place in (0, 1))
    assert ours[2] == torchs[2] and ours[1].dtype == torchs[1].dtype
    assert torch.equal(ours[3][1], torchs[3][1])


def test_a_pair_with_a_list_of_numbers_has_a_tensor():
    raw = from_torch([([1, 2, 3], 0), ([4, 5, 6], 1)]).__getitems__([1, 0])
    assert isinstance(raw, RawBatch) and raw.inputs.tolist() == [[4, 5, 6], [1, 2, 3]]


@pytest.mark.parametrize("samples, said", [
    ([{"ids": [1, 2]}, {"ids": [1]}], "field 'ids': expected sequence of length 2"),
    ([{"p": Point(1, 2, 3)}, {"p": Point(1, 2, "a")}], "field 'p': field 'z': "),
    ([{"ids": [1]}, {"other": [1]}], "not every sample has the fields ids"),
    ([{"a": 1}, {"a": 1, "b": 2}], "not every sample has the fields a"),
    ([{"a": None}, {"a": None}], "field 'a': default_collate: batch must contain"),
    ([{"a": torch.ones(2)}, {"a": torch.ones(3)}], "field 'a': stack expects each tensor"),
])  # fmt: skip
def test_samples_that_make_no_batch_are_refused_by_the_field(samples, said):
    said_by = message_of(errors.MismatchError, from_torch(samples).__getitems__, [0, 1])
    assert f"list: its samples do not make a batch: {said}" in said_by
    assert "or a collate function" in said_by


def test_a_batcher_moves_other_structures_with_float64_as_float32():
    raw = {"x": torch.ones(2, dtype=torch.float64), "n": torch.ones(2, dtype=torch.int32)}
    batch = ArrayBatcher(mean=(5.0,))(collections.OrderedDict(raw), CPU)
    assert type(batch) is collections.OrderedDict
    assert batch["x"].dtype == torch.float32 and batch["n"].dtype == torch.int32
    assert batch["x"].tolist() == [1.0, 1.0]  # not normalised
    pair = ArrayBatcher()(RawBatch({"x": raw["x"]}, raw["n"]), CPU)
    assert pair.inputs["x"].dtype == torch.float32 and pair.targets.dtype == torch.int32

"""Mixtures: exact shares, each part in passes of its own order, the same however it is gathered."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from andiron import errors
from andiron.data import ArrayBatcher, ArrayDataset, DataLoader, Splits, torch_dataset
from andiron.distributed import ALONE, Sliced, World
from andiron.shell.training import train
from andiron_lab.data.mixture import mixture
from andiron_lab.data.mixing_order import PLACES, Shares
from in_process import called
from refusals import message_of


def part(first, size):
    """Samples whose only number is `first` and the following."""
    numbers = torch.arange(first, first + size)
    samples = ArrayDataset(numbers[:, None].float(), numbers)
    return Splits(
        name="numbers", train=samples, valid=samples.subset([0, 1]), test=samples.subset([2]),
        batcher=ArrayBatcher(), facts={"input_shape": (1,)}, fingerprint=str(first),
    )  # fmt: skip


PARTS = {"a": (0, 700), "b": (1000, 37), "c": (2000, 5)}
WEIGHTS = {"a": 6, "b": 3, "c": 1}
CHANGES = {1500: {"a": 1, "b": 0, "c": 2}}


def mixed(**options):
    given = {"weights": WEIGHTS, "changes": CHANGES, "size": 1003, **options}
    return mixture(parts={name: part(*sizes) for name, sizes in PARTS.items()}, **given)


def read(epochs, *, first_batch=0, splits=None, **options):
    """The targets of each batch, or of its slices by number."""
    splits = splits or mixed()
    loader = DataLoader(splits.train, splits.batcher, batch_size=32, shuffle_seed=5, **options)
    try:
        batches = [batch for epoch in epochs for batch in loader.epoch(epoch, first_batch)]
    finally:
        loader.close()
    return [
        {number: part.targets.tolist() for number, part in batch.items()}
        if isinstance(batch, Sliced) else batch.targets.tolist() for batch in batches
    ]  # fmt: skip


def test_shares_are_exact_in_every_block_and_ranks_have_no_gap():
    shares = Shares({0: [6, 3, 1], 20000: [1, 0, 2], 20001: [1, 1, 1]})
    owners, ranks = shares.at(torch.arange(4 * PLACES), seed=3)
    for number in range(3):
        assert torch.equal(ranks[owners == number], torch.arange(int((owners == number).sum())))
    assert torch.bincount(owners[:PLACES]).tolist() == [9830, 4915, 1639]
    assert (owners[20000] != 1) and abs(int((owners == 1).sum()) - 4915 - 1085 - 15178) < 60
    places = torch.tensor([50000, 7, 19999, 20000, 20001, 7])
    some = shares.at(places, seed=3)
    assert torch.equal(some[0], owners[places]) and torch.equal(some[1], ranks[places])


def test_every_part_is_read_in_whole_passes_of_different_orders():
    seen = list(itertools.chain.from_iterable(read(range(3), splits=mixed(changes=None))))
    for first, size in PARTS.values():
        own = [number for number in seen if first <= number < first + size]
        passes = [own[begin : begin + size] for begin in range(0, len(own) - size + 1, size)]
        assert passes and all(sorted(one) == [*range(first, first + size)] for one in passes)
        assert len({tuple(one) for one in passes}) > 0.6 * len(passes)  # of 120 orders of c


@pytest.mark.parametrize(("workers", "slices", "ranks"), [(1, None, 1), (2, None, 1), (0, 6, 3)])
def test_batches_do_not_depend_on_how_they_are_gathered(workers, slices, ranks):
    whole = read([0, 1])
    for first_batch in (0, 12):
        worlds = [World(rank, ranks, slices=slices) if slices else ALONE for rank in range(ranks)]
        gathered = [
            read([1], first_batch=first_batch, world=world, num_workers=workers) for world in worlds
        ]
        for expected, *own in zip(whole[32 + first_batch :], *gathered, strict=True):
            if slices:
                parts = {number: rows for sliced in own for number, rows in sliced.items()}
                own = [list(itertools.chain.from_iterable(parts[n] for n in sorted(parts)))]
            assert own == [expected]


def test_a_change_leaves_the_samples_before_it():
    before, after = (list(itertools.chain.from_iterable(read([0, 1], splits=splits)))
                     for splits in (mixed(changes=None), mixed()))  # fmt: skip
    assert before[:1500] == after[:1500]
    assert all(not 1000 <= number < 1037 for number in after[1500:])


def test_parts_validate_together_and_each_by_its_name():
    splits = mixed()
    assert [*splits.by_name] == ["train", "valid", "test", "a", "b", "c"]
    assert splits.valid.__getitems__(range(6)).targets.tolist() == [0, 1, 1000, 1001, 2000, 2001]
    assert splits.more["b"].__getitems__([0, 1]).targets.tolist() == [1000, 1001]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(1), 0)] * 3)


PAIRS = [(torch.zeros(1), 0)] * 3
STREAM = torch_dataset(train=Stream(), valid=PAIRS, test=PAIRS, num_classes=2, samples_per_epoch=3)


@pytest.mark.parametrize(("options", "said"), [
    ({"weights": {"a": 1, "b": 1}}, "data.weights: is for a, b; the parts are a, b, c: give each"),
    ({"weights": {"a": 1, "b": 1, "c": 1e-9}}, "data.weights: weight 1e-09 of 2 is less than one"),
    ({"changes": {7: {"a": 0, "b": 0, "c": 0}}}, "data.weights: no weight is above 0; give at"),
    ({"changes": {7: {"x": 0}}}, "data.changes.7: is for x; the parts are a, b, c: give each its"),
])  # fmt: skip
def test_weights_that_do_not_fit_are_refused(options, said):
    assert message_of(errors.DataError, mixed, **options).startswith(said)


@pytest.mark.parametrize(("other", "said"), [
    (STREAM, "data.parts.two: is a stream, whose samples have no index"),
    (replace(part(0, 9), batcher=ArrayBatcher((1.0,))), "data.parts.two: its numbers are changed"),
    (replace(part(0, 9), facts={"num_classes": 3}), "data.parts.two: input_shape is None, that"),
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(other, said):
    parts = {"one": part(0, 9), "two": other}
    assert message_of(errors.DataError, mixture, parts=parts).startswith(said)


def test_a_resumed_run_changes_weights_only_after_what_it_has_seen(here):
    def run(*arguments):
        return called(train.main, *arguments, "render=plain")

    ended = run(
        "data=mixture", "+data@data.parts.one=digits", "+data@data.parts.two=digits",
        "data.weights={one:3,two:1}", "data.size=256", "num_updates=4", "hydra.run.dir=run",
    )  # fmt: skip
    assert ended.code == 0, ended.errors
    early = run("resume=run", "num_updates=6", "data.changes={255:{one:1,two:1}}")
    assert early.problems[0].startswith("data.changes.255.one=1: the run has trained on 256 samp")
    never = run("resume=run", "num_updates=6", "data.weights={one:1,two:1}")
    assert never.problems[0].startswith("data.weights.one=1: the run was recorded with 3, and a")
    later = run("resume=run", "num_updates=6", "data.changes={256:{one:1,two:1}}")
    assert later.code == 0, later.errors
    resume = json.loads(Path("run/provenance.json").read_text())["resumes"][-1]
    assert resume["updates"] == 4
    assert resume["changes"]["data.changes.256.one"] == [None, 1.0]
    again = run("resume=run", "num_updates=8")
    assert again.code == 0, again.errors

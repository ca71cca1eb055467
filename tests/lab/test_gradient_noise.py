"""Noise on gradients: a function of seed, update and name, of the paper's variance."""

import math

import pytest
import torch
from torch import nn

from andiron import gradients
from andiron.gradients import Gradients
from andiron.optim import chained
from andiron_lab.optim import noise


def some(number=0):
    stream = torch.Generator().manual_seed(number)
    shapes = {"bias": (5,), "weight": (3, 5), "kernel": (4, 3, 2, 2), "scale": ()}
    tensors = {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}
    return Gradients(tensors, nn.Linear(2, 1), torch.tensor(1.5))


def same(one, other):
    return [*one] == [*other] and all(torch.equal(one[name], other[name]) for name in one)


def test_noise_is_a_function_of_seed_update_and_parameter():
    chain = chained([noise(0.1)], seed=3)
    first = chain(some(), 4)
    torch.randn(17)  # whatever is drawn in between
    chain(some(1), 5)
    assert same(chain(some(), 4), first)
    assert same(chained([noise(0.1)], seed=3)(some(), 4), first)

    part = some().take_names("kernel")
    assert torch.equal(chain(part, 4)["kernel"], first["kernel"])
    for other in (chain(some(), 5), chained([noise(0.1)], seed=4)(some(), 4)):
        assert not any(torch.equal(other[name], first[name]) for name in first)


def test_two_noises_of_a_chain_differ():
    once = chained([noise(0.1)], seed=3)(some(), 4)
    twice = chained([noise(0.1), noise(0.1)], seed=3)(some(), 4)
    assert not torch.allclose(twice["kernel"] - once["kernel"], once["kernel"] - some()["kernel"])


@pytest.mark.parametrize("std, decay, update, sigma", [
    (0.5, 0.0, 0, 0.5), (0.5, 0.0, 99, 0.5), (0.5, 1.0, 99, 0.05), (0.2, 0.5, 15, 0.1),
])  # fmt: skip
def test_noise_has_the_paper_s_variance(std, decay, update, sigma):
    zeros = Gradients({"weight": torch.zeros(200, 200)}, nn.Linear(2, 1))
    drawn = chained([noise(std, decay)], seed=0)(zeros, update)["weight"]
    # 40,000 draws: the mean is within 5 sigma / 200, the standard deviation within 5 / sqrt(80,000)
    assert abs(drawn.mean()) < sigma / 40
    assert math.isclose(drawn.std(), sigma, rel_tol=5 / math.sqrt(80_000))


class Lookup(nn.Module):
    def __init__(self, *tables, tied=None):
        super().__init__()
        self.tables = nn.ModuleList(tables)
        self.head = nn.Linear(3, 5, bias=False)
        if tied is not None:
            self.head.weight = tables[tied].weight

    def forward(self, codes):
        return self.head(sum(table(codes).view(len(codes), 3) for table in self.tables))


@pytest.mark.parametrize(("tables", "rows"), [
    ([nn.Embedding(5, 3, padding_idx=0)], {"tables.0.weight": 0}),
    ([nn.Embedding(5, 3, padding_idx=-1)], {"tables.0.weight": 4}),
    ([nn.EmbeddingBag(5, 3, padding_idx=2)], {"tables.0.weight": 2}),
    ([nn.Embedding(5, 3), nn.Embedding(5, 3, 1)], {"tables.1.weight": 1}),
])  # fmt: skip
def test_noise_leaves_the_vector_of_a_padding_idx(tables, rows):
    model = Lookup(*tables)
    given = gradients.backward(model(torch.arange(5)[:, None]).square().sum(), model)
    drawn = noise(0.1)(given, seed=1, update=0)
    for name, gradient in given.items():
        moved = (drawn[name] != gradient).flatten(1).any(1)
        assert [*moved.tolist()] == [row != rows.get(name) for row in range(len(moved))]


def test_noise_moves_the_vector_of_a_padding_idx_that_a_tied_layer_trains():
    model = Lookup(nn.Embedding(5, 3, padding_idx=0), tied=0)
    given = gradients.backward((model(torch.arange(5)[:, None]) - 1).square().sum(), model)
    drawn = noise(0.1)(given, seed=1, update=0)
    assert (drawn["tables.0.weight"] != given["tables.0.weight"]).all()

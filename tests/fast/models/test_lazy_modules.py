"""Lazy modules get the sizes and the initial weights that a batch of the data would give them."""

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.shell.assembly.network import give_sizes, has_lazy

NODE = {"_target_": "mine.Net"}


def network():
    return nn.Sequential(
        nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Dropout(), nn.Flatten(), nn.LazyLinear(3)
    )


def test_a_lazy_network_is_that_of_a_first_batch():
    torch.manual_seed(0)
    by_hand = network().eval()
    by_hand(torch.zeros(5, 1, 8, 8))
    drawn = torch.rand(3)

    torch.manual_seed(0)
    mine = network()
    give_sizes(mine, NODE, {"input_shape": [1, 8, 8]})

    assert not has_lazy(mine) and mine.training and mine[2].training
    for name, weight in by_hand.state_dict().items():
        assert torch.equal(mine.state_dict()[name], weight), name
    assert torch.equal(torch.rand(3), drawn)  # no other number was drawn
    assert mine[1].running_var.eq(1).all() and mine[1].num_batches_tracked == 0


def test_tokens_are_integers():
    mine = nn.Sequential(nn.Embedding(7, 4), nn.LazyLinear(3))
    give_sizes(mine, NODE, {"context_length": 5})
    assert mine[1].weight.shape == (3, 4)


class Aside(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.LazyLinear(2), nn.LazyLinear(2)

    def forward(self, inputs):
        return self.used(inputs)


@pytest.mark.parametrize(("model", "facts", "words"), [
    (network(), {}, "model._target_=mine.Net: has lazy modules, and the data set has no fact"),
    (Aside(), {"input_shape": [2]}, "'unused.weight' gets no size, since forward does not use"),
    (network(), {"input_shape": [2]}, "lazy modules take their sizes from a forward pass"),
])  # fmt: skip
def test_a_module_without_a_size_is_an_error_of_one_line(model, facts, words):
    with pytest.raises(errors.AndironError, match=words.replace("[", r"\[")) as refused:
        give_sizes(model, NODE, facts)
    assert len(str(refused.value).splitlines()) <= 2

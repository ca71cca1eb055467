"""Rules that give each layer a rate by its distance from the output."""

from torch import nn

from andiron import errors
from andiron.models import MLP
from andiron.optim.owners import ownership
from andiron.optim.owners.match_rules import Rule
from andiron_lab.optim import layerwise
from refusals import message_of


def test_the_rate_shrinks_with_the_distance_from_the_output():
    model = MLP((4,), 3, hidden=[5, 5])
    rules = layerwise(model, decay=0.5)
    assert [rule["lr_scale"] for rule in rules.values()] == [0.25, 0.5, 1.0]
    owned = ownership.assign(model, {n: Rule.of(rule["match"], None) for n, rule in rules.items()})
    names = [name for name, _ in model.named_parameters()]
    assert [[*part] for part in owned.values()] == [names[:2], names[2:4], names[4:]]


def test_a_pattern_captures_layers_and_the_base_owns_the_rest():
    layers = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])
    blocks = nn.ModuleDict({"stem": nn.Linear(2, 2), "blocks": layers})
    rules = layerwise(blocks, 0.5, pattern=r"blocks[.](\d+)")
    assert rules == {
        f"layer_{i}": {"match": {"parameters": [f"blocks.{i}.weight"]}, "lr_scale": 0.5 ** (2 - i)}
        for i in range(3)
    }
    for pattern, words in {
        "blocks": "should have one group that captures the layer",
        "(layer)": "matches no parameter's name; match some of: stem.weight, ",
    }.items():
        assert words in message_of(errors.ConfigError, layerwise, blocks, pattern=pattern)

"""Gives lazy modules of a network, such as `nn.LazyLinear`, their sizes before training.

The sizes come from one forward pass of zeros, so they are the same whenever the network is built.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from andiron import errors
from andiron.shell.assembly import targets


def has_lazy(module: nn.Module) -> bool:
    """Whether a parameter or buffer has no size yet."""
    return any(map(is_lazy, itertools.chain(module.parameters(), module.buffers())))


def initialise(network: nn.Module, node: targets.Node, facts: Mapping[str, object]) -> None:
    """Runs `network` on one sample of zeros, as the facts of the data describe it.

    It runs in evaluation mode: no random number is drawn except for the new weights.
    Raises: ConfigError if the shape of a sample is not known, or `forward` fails or leaves a module
    out.
    """
    inputs = _zeros(node, facts)
    was_training = network.training
    try:
        with torch.no_grad():
            network.eval()(inputs)
    except Exception as error:
        what = f"lazy modules take their sizes from a forward pass of zeros {[*inputs.shape]}"
        errors.explain(error, f"model: {what}", "give the modules their sizes")
        raise
    finally:
        network.train(was_training)
    lazy = (name for name, value in network.named_parameters() if is_lazy(value))
    if name := next(lazy, None):
        why = f"the lazy parameter {name!r} gets no size, since forward does not use its module"
        raise targets.refused("model", node, f"{why} in evaluation mode; give its sizes")


def _zeros(node: targets.Node, facts: Mapping[str, Any]) -> Tensor:
    if "input_shape" in facts:
        return torch.zeros(1, *facts["input_shape"])
    if "context_length" in facts:
        return torch.zeros(1, int(facts["context_length"]), dtype=torch.long)
    why = "has lazy modules, and the data set has no fact input_shape to give them their sizes"
    raise targets.refused("model", node, f"{why}; add the fact, or give the sizes")

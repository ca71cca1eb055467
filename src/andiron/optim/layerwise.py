"""Learning rates that fall with the distance from the output."""

import re
from typing import Annotated, Any

from pydantic import Field
from torch import nn

from andiron import errors
from andiron.optim.match_rules import describe


def layerwise(
    model: nn.Module,
    decay: Annotated[float, Field(gt=0, le=1)] = 0.75,
    *,
    pattern: str | None = None,
) -> dict[str, dict[str, Any]]:
    """A rule for each layer, `lr_scale` of layer l of n being decay ** (n - 1 - l): the last keeps the whole rate.

    A layer is a module that holds parameters, or with `pattern` all parameters in whose names the regular expression's
    first group reads the same; those it does not match stay with the base.
    Raises: ConfigError if the pattern has no group or matches nothing.
    Source: Howard & Ruder 2018, arXiv:1801.06146, section 3.2 (discriminative fine-tuning); they divide by 2.6.
    """
    layers: dict[str, list[str]] = {}
    for parameter in describe(model):
        if parameter.tensor.requires_grad:
            layer = (
                parameter.name.rpartition(".")[0]
                if pattern is None
                else _layer(pattern, parameter.name)
            )
            if layer is not None:
                layers.setdefault(layer, []).append(parameter.name)
    if not layers:
        raise errors.ConfigError(
            [
                f"param_groups: pattern={pattern}: matches no parameter's name; match some of: {_names(model)}"
            ]
        )
    return {
        f"layer_{number}": {
            "match": {"parameters": names},
            "lr_scale": decay ** (len(layers) - 1 - number),
        }
        for number, names in enumerate(layers.values())
    }


def _layer(pattern: str, name: str) -> str | None:
    expression = re.compile(pattern)
    if expression.groups != 1:
        wanted = "should have one group that tells the layer, as in blocks[.](\\d+)"
        raise errors.ConfigError([f"param_groups: pattern={pattern}: {wanted}"])
    found = expression.search(name)
    return found[1] if found else None


def _names(model: nn.Module) -> str:
    return ", ".join(name for name, _ in model.named_parameters())

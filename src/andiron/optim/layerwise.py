"""Parameter groups by layer, with learning rates that fall with the distance from the output."""

import re
from typing import Any

from torch import nn

from andiron import errors
from andiron.ranges import Decay


def layerwise(
    model: nn.Module, decay: Decay = 0.75, *, pattern: str | None = None
) -> dict[str, dict[str, Any]]:
    """A rule for each of n layers; layer l has lr_scale = decay ** (n - 1 - l), the last has 1.

    A layer is a module that holds parameters; with `pattern`, all parameters in whose names the
    regular expression's group captures the same text. The base owns those that do not match.
    Raises: ConfigError if the pattern has no group or matches nothing.
    Source: Howard & Ruder 2018, arXiv:1801.06146, section 3.2 (discriminative fine-tuning); there
    decay = 1 / 2.6.
    """
    layers: dict[str, list[str]] = {}
    for name, parameter in model.named_parameters():
        layer = name.rpartition(".")[0] if pattern is None else _layer(pattern, name)
        if parameter.requires_grad and layer is not None:
            layers.setdefault(layer, []).append(name)
    if not layers:
        known = ", ".join(dict(model.named_parameters()))
        problem = f"pattern={pattern}: matches no parameter's name; match some of: {known}"
        raise errors.ConfigError([f"param_groups: {problem}"])
    last = len(layers) - 1
    return {
        f"layer_{number}": {"match": {"parameters": names}, "lr_scale": decay ** (last - number)}
        for number, names in enumerate(layers.values())
    }


def _layer(pattern: str, name: str) -> str | None:
    expression = re.compile(pattern)
    if expression.groups != 1:
        wanted = "should have one group that captures the layer, as in blocks[.](\\d+)"
        raise errors.ConfigError([f"param_groups: pattern={pattern}: {wanted}"])
    match = expression.search(name)
    return match[1] if match else None

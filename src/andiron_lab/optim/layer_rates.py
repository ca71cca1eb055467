"""Parameter groups by layer, with learning rates that fall with the distance from the output."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from andiron import errors
from andiron.plain import patterns
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
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    if pattern is None:
        layer_of = {name: name.rpartition(".")[0] for name in trained}  # the module that holds it
    else:
        layer_of = _captured(pattern, trained)
    for name, layer in layer_of.items():
        layers.setdefault(layer, []).append(name)
    if not layers:
        known = ", ".join(dict(model.named_parameters()))
        problem = f"pattern={pattern}: matches no parameter's name; match some of: {known}"
        raise errors.ConfigError(f"param_groups: {problem}")
    last = len(layers) - 1
    return {
        f"layer_{number}": {"match": {"parameters": names}, "lr_scale": decay ** (last - number)}
        for number, names in enumerate(layers.values())
    }


def _captured(pattern: str, names: Iterable[str]) -> dict[str, str]:
    """The text that the expression's group captures, for each name that matches."""
    try:
        number = patterns.compiled(pattern).groups
        matches = patterns.searched(pattern, names)
    except ValueError as error:
        raise errors.ConfigError(f"param_groups: pattern={error}") from error
    if number != 1:
        wanted = "should have one group that captures the layer, as in blocks[.](\\d+)"
        raise errors.ConfigError(f"param_groups: pattern={pattern}: {wanted}")
    return {name: match[1] for name, match in matches.items() if match[1] is not None}

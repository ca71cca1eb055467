"""LoRA adapters on the layers that a rule of `param_groups` matches, by peft.

The weights of a matched layer stay as they are; the rule's group owns its adapter.
Source: Hu et al. 2021, arXiv:2106.09685.
"""

import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from andiron import errors, randomness
from andiron.optim.owners.match_rules import Match, Rule, described
from andiron.shell.assembly import targets
from andiron.shell.assembly.network import SizeLimit, weights_counted
from andiron.shell.config.rules import Adapter
from andiron.shell.config.schema import Train


def add(config: Train, model: nn.Module, size_limit: SizeLimit | None = None) -> None:
    """Puts the configured adapters around the layers of `model`, initialised from the seed.

    Raises: ConfigError for a rule that matches no layer, or a layer that peft cannot adapt.
    """
    for group, rule in (config.param_groups or {}).items():
        if rule.get("adapter") is not None:
            option = f"param_groups.{group}.adapter"
            if importlib.util.find_spec("peft") is None:
                reason = f"needs peft{targets.installation('peft')}"
                raise errors.ConfigError(f"{option}: {reason}")
            randomness.start_stream(config.seed, option)
            with targets.refusals_named(option), weights_counted(config.model, size_limit):
                _add(group, Rule.of(rule["match"], rule.get("exclude")), model, rule["adapter"])


@contextmanager
def merged(config: Train, model: nn.Module, size_limit: SizeLimit) -> Iterator[None]:
    """A context in which `model` has the configured adapters; at its end they are merged."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    add(config, model, size_limit)
    yield
    merge(model)
    for parameter in trained:  # also those of adapted layers
        parameter.requires_grad_(True)


def merge(model: nn.Module) -> None:
    """Adds each adapter to the weights of its layer, and puts the layer back in its place.

    Raises: DataError for a weight that another module uses too: it would change there.
    """
    layers = adapted(model)
    shared = {name for parameter in described(model) for name in parameter.names[1:]}
    for path, layer in layers.items():
        names = [f"{path}.base_layer.{name}" for name, _ in layer.base_layer.named_parameters()]
        if used := sorted(shared.intersection(names)):
            raise errors.DataError(f"{used[0]}: another module shares it, so that its adapter "
                                   "cannot be merged; choose --format adapter")  # fmt: skip
        layer.merge(safe_merge=True)
        model.set_submodule(path, layer.get_base_layer())


def adapted(model: nn.Module) -> dict[str, Any]:
    """The layers with adapters of peft, by name; empty where peft made none."""
    peft: Any = sys.modules.get("peft.tuners.lora")
    layers = model.named_modules() if peft else ()
    return {name: module for name, module in layers if isinstance(module, peft.LoraLayer)}


def claim(group: str) -> Match:
    """Matches the adapter's parameters, which the group of its rule owns."""
    return Match(name=rf"\.lora_\w+\.{re.escape(group)}(\.|$)")


def _add(group: str, rule: Rule, model: nn.Module, node: Mapping[str, Any]) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    options = Adapter(**node)
    names = {
        name.rpartition(".")[0]
        for parameter in described(model)
        if rule(parameter)
        for name in parameter.names
    }
    if not names:
        raise ValueError(f"no layer has a parameter that matches {rule.match}")
    layers = [model.get_submodule(name) for name in names]
    matched = {parameter for layer in layers for parameter in layer.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad and p not in matched]
    config = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha or options.rank,
        lora_dropout=options.dropout,
        target_modules="|".join(map(re.escape, sorted(names))),
        fan_in_fan_out=any(type(layer).__name__ == "Conv1D" for layer in layers),
    )
    inject_adapter_in_model(config, model, group)
    del model.peft_config  # else a second adapter is warned about
    for parameter in trained:  # peft freezes all but its own
        parameter.requires_grad_(True)
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.register_forward_pre_hook(_adapted_in_evaluation)


def _adapted_in_evaluation(module: nn.Module, arguments: Any) -> None:
    """Keeps torch off its fused layer, which takes the weights below the adapters alone."""

"""LoRA adapters on the layers that a rule of `param_groups` matches, by peft.

The weights of a matched layer stay as they are; the rule's group owns its adapter.
Source: Hu et al. 2021, arXiv:2106.09685.
"""

import importlib.util
import re
from collections.abc import Mapping
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
                raise errors.ConfigError([f"{option}: {reason}"])
            randomness.start_stream(config.seed, option)
            with targets.refusals_named(option), weights_counted(config.model, size_limit):
                _add(group, Rule.of(rule["match"], rule.get("exclude")), model, rule["adapter"])


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

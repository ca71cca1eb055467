"""LoRA adapters of a run in the layout of peft."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from andiron import errors, serialization
from andiron.serialization.weight_files import ADAPTER
from andiron.tasks.criterion import Supervised
from andiron.wings.trained.exports.programs import Program
from andiron_lab.adapters import low_rank


def mark_trained(model: nn.Module, groups: Mapping[str, Any]) -> None:
    """Lets only the parameters that trained require gradients, by the record `param_groups`."""
    trained = {
        name
        for group in groups.values()
        if group.get("frozen") is not True
        for name in group["parameters"]
    }
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)


def write(model: nn.Module, path: Path) -> Program:
    """Writes adapter_model.safetensors and adapter_config.json for `PeftModel.from_pretrained`.

    The file also has buffers, and the parameters beside the adapters that require gradients.
    Returns the model with the tensors read back.
    Raises: DataError for a model without adapters, or with adapters of several rules.
    """
    network = model.network if isinstance(model, Supervised) else model
    layers = low_rank.adapted(network)
    groups = {group for layer in layers.values() for group in layer.active_adapters}
    if len(groups) != 1:
        has = f"adapters of {', '.join(sorted(groups))}, and a file has one" if groups else "none"
        raise errors.DataError(f"--format adapter: {type(network).__name__} has {has}")
    (group,) = groups
    own = re.compile(rf"(\.lora_\w+)\.{re.escape(group)}(?=\.|$)")  # peft adds its own name there
    tensors = {
        ADAPTER + own.sub(r"\1", name): tensor
        for name, tensor in network.state_dict(keep_vars=True).items()
        if own.search(name) or tensor.requires_grad or not isinstance(tensor, nn.Parameter)
    }
    serialization.save_tensors(path, tensors)
    _config(group, layers).save_pretrained(path.parent)
    read = serialization.load_tensors(path)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.zero_().add_(read[name])
    return model


def _config(group: str, layers: dict[str, Any]) -> Any:
    from peft import LoraConfig

    first = next(iter(layers.values()))
    dropout = first.lora_dropout[group]
    return LoraConfig(
        r=first.r[group],
        lora_alpha=first.lora_alpha[group],
        lora_dropout=getattr(dropout, "p", 0.0),
        target_modules=sorted(layers),
        fan_in_fan_out=getattr(first, "fan_in_fan_out", False),
    )

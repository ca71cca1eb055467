"""What distinguishes one run from another, as the HParams tab of TensorBoard takes it."""

import dataclasses
import json
from typing import Any

from andiron.config.schema import Train

NUMBERS = ("lr", "batch_size", "num_epochs", "seed")
GROUPS = ("optimizer", "model", "data", "task", "loss", "scheduler")
RARE = (
    "param_groups", "averages", "augmentation", "early_stopping", "grads_accumulation", "clip", "sam", "precision",
    "start_from",
)  # fmt: skip


def of(config: Train) -> dict[str, bool | int | float | str]:
    """What distinguishes one run from another, flat and plain: numbers, and each group's target and arguments.

    Left out are the options that change only what is kept and shown, those that are rarely given and were not, and a
    schedule's repetitions of `lr`.
    """
    flat: dict[str, bool | int | float | str] = {name: getattr(config, name) for name in NUMBERS}
    for field in dataclasses.fields(Train):
        value = getattr(config, field.name)
        if field.name in RARE and value != field.default:
            flat |= _flat(field.name, value)
    for group in GROUPS:
        node = getattr(config, group)
        repeats = {
            f"{group}.{name}"
            for name, value in (node or {}).items()
            if group == "scheduler" and value == config.lr
        }
        flat |= {name: value for name, value in _flat(group, node).items() if name not in repeats}
    return flat


def _flat(name: str, value: Any) -> dict[str, bool | int | float | str]:
    """Nested values by dotted name; a node's target stands under the name of the node itself."""
    if isinstance(value, dict):
        inner = {
            name if key == "_target_" else f"{name}.{key}": part for key, part in value.items()
        }
        named = {
            key: part.rpartition(".")[2] if key == name else part for key, part in inner.items()
        }
        return {
            key: plain for where, part in named.items() for key, plain in _flat(where, part).items()
        }
    if value is None:
        return {}
    return {name: value if isinstance(value, bool | int | float | str) else json.dumps(value)}

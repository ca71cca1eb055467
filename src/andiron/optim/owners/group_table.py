"""Parameter groups: as a value for JSON, and as a line of the log."""

import dataclasses
from collections.abc import Mapping

import torch

from andiron.optim.owners.group import Group
from andiron.plain import readable
from andiron.plain.plain_values import Plain
from andiron.schedules.schedule import Schedule


def param_groups(
    groups: Mapping[str, Group], rates: Mapping[str, float | None], schedule: Schedule
) -> Plain:
    """The content of `param_groups.json`: by group its optimizer, options, rates and parameters.

    `lr` is the learning rate of one update, from `rates` (None for a frozen group): `lr_scale`
    times `schedule`, which is the group's own or, without one, that of the run.
    """
    return {
        name: {
            "optimizer": group.optimizer.name if group.optimizer else None,
            "options": _plain(group.options),
            "lr": rates.get(name),
            "lr_scale": group.lr_scale,
            "schedule": _described(group.schedule or schedule),
            **group.settings,
            "num_tensors": len(group.parameters),
            "num_parameters": sum(parameter.numel() for parameter in group.parameters.values()),
            "parameters": {name: list(tensor.shape) for name, tensor in group.parameters.items()},
        }
        for name, group in groups.items()
    }


def summary(group: Group) -> str:
    """`hidden by torch.optim.Muon, 1 tensor with 32,768 parameters`."""
    number, by = len(group.parameters), f" by {group.optimizer.name}" if group.optimizer else ""
    values = sum(parameter.numel() for parameter in group.parameters.values())
    tensors = f"{number} tensor{'' if number == 1 else 's'} with {values:,} parameters"
    return f"{group.name}{by or ', frozen'}, {tensors}"


def _described(schedule: Schedule) -> str:
    """`Cosine(initial_lr=0.1, num_updates=210, min_lr=0.0)`; a function by its name."""
    name = readable.name_of(schedule)
    return repr(schedule) if dataclasses.is_dataclass(schedule) else name


def _plain(options: Mapping[str, object]) -> Plain:
    """The options with dtypes by name: Kron has some."""
    return {
        name: str(value) if isinstance(value, torch.dtype) else value
        for name, value in options.items()
    }

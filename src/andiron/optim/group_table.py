"""Which optimizer owns which parameter, as a value, and as a page for TensorBoard."""

from collections.abc import Mapping
from typing import Any

from andiron.optim.grouped import Group


def param_groups(groups: Mapping[str, Group], rates: Mapping[str, float]) -> dict[str, Any]:
    """The content of `param_groups.json`: by group its optimizer, options, learning rate now and parameters.

    `rates` are those of an update; a group that is frozen then has none.
    """
    return {
        name: {
            "optimizer": group.optimizer.name if group.optimizer else None,
            "options": group.optimizer.options if group.optimizer else {},
            "lr": rates.get(name),
            **group.settings,
            "num_tensors": len(group.parameters),
            "num_parameters": sum(parameter.numel() for parameter in group.parameters.values()),
            "parameters": {
                parameter: list(tensor.shape) for parameter, tensor in group.parameters.items()
            },
        }
        for name, group in groups.items()
    }


def as_markdown(groups: Mapping[str, Any]) -> str:
    """A table of the groups, and one of the parameters with their group."""
    lines = [
        "| group | optimizer | options | lr | tensors | parameters |",
        "|---|---|---|---|---|---|",
    ]
    for name, group in groups.items():
        options = ", ".join(
            f"{key}={value}" for key, value in group["options"].items() if value is not None
        )
        lr = "frozen" if group["lr"] is None else f"{group['lr']:g}"
        counts = f"{group['num_tensors']} | {group['num_parameters']:,}"
        lines.append(f"| {name} | {group['optimizer']} | {options} | {lr} | {counts} |")
    lines += ["", "| group | parameter | shape |", "|---|---|---|"]
    for name, group in groups.items():
        lines += [
            f"| {name} | {parameter} | {shape} |"
            for parameter, shape in group["parameters"].items()
        ]
    return "\n".join(lines)

"""Which optimizer owns which parameter, as a value, and as a page for TensorBoard."""

from typing import Any

from andiron.optim.optimizer import Optimizer


def param_groups(optimizer: Optimizer, lr: float) -> dict[str, Any]:
    """The content of `param_groups.json`: by group its optimizer, options, first learning rate and parameters."""
    parameters = optimizer.parameters
    return {
        "base": {
            "optimizer": optimizer.name,
            "options": optimizer.options,
            "lr": lr,
            "num_tensors": len(parameters),
            "num_parameters": sum(parameter.numel() for parameter in parameters.values()),
            "parameters": {name: list(parameter.shape) for name, parameter in parameters.items()},
        }
    }


def as_markdown(groups: dict[str, Any]) -> str:
    """A table of the parameters, with their group and its optimizer."""
    lines = ["| group | optimizer | lr | parameter | shape |", "|---|---|---|---|---|"]
    for name, group in groups.items():
        for parameter, shape in group["parameters"].items():
            lines.append(f"| {name} | {group['optimizer']} | {group['lr']:g} | {parameter} | {shape} |")
    return "\n".join(lines)

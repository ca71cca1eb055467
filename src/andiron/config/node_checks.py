"""Checks the nodes of a configuration, each a `_target_` and its arguments."""

from typing import Any

from andiron.config import trust, violations
from andiron.config.foreign_ranges import FOREIGN_RANGES
from andiron.config.signatures import signature
from andiron.config.violations import Options, Problems

FACTS = {  # about the data, known once it is read: `Splits.offered`
    "input_shape", "num_classes", "num_outputs", "class_names", "class_counts", "vocabulary",
    "vocabulary_size", "context_length", "bytes_per_token", "input_mean", "input_std",
    "target_mean", "target_std", "category_counts",
}  # fmt: skip
SUPPLIED = {  # by group: arguments that the run fills in where a node omits them or sets null
    "model": FACTS,
    "task": FACTS | {"network", "loss"},
    "metrics": FACTS | {"name"},
    "augmentation": FACTS | {"name"},
    "scheduler": {"num_updates"},
    "param_groups": {"num_updates", "model"},
    "checkpoint": {"direction", "folder"},
    "early_stopping": {"direction"},
    "observers": {"model", "run_dir"},
    "writers": {"run_dir", "path", "folder"},
    "render": {"run_dir"},
}


def is_shipped(target: str) -> bool:
    """Whether a target is Andiron's, or another library's with known ranges."""
    return target.startswith("andiron.") or target in FOREIGN_RANGES


def problems(path: str, node: Any) -> Problems:
    """The problems of the node at `path` and of the nodes inside it, by option."""
    if not isinstance(node, dict):
        return {path: f"{path}={node}: should be an object"}
    target = node.get("_target_")
    option = f"{path}._target_"
    if not isinstance(target, str):
        return {
            option: f"{option}={target}: names no class or function; "
            "give its dotted name, such as torch.optim.Adam"
        }
    if reason := trust.misplacement(path, target):
        return {option: f"{option}={target}: {reason}"}
    own = ("_target_", "_partial_")
    arguments = {key: value for key, value in node.items() if key not in own}
    return argument_problems(target, arguments, path) | inner_problems(path, arguments)


def argument_problems(target: str, arguments: Options, path: str) -> Problems:
    """The problems of a target's arguments, as far as its source shows."""
    expected = signature(target)
    if expected is None:
        return {}
    supplied = SUPPLIED.get(path.partition(".")[0], set())
    values = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in supplied
    }
    if not is_shipped(target):  # a node inside it is built first, and may become anything
        values = {name: value for name, value in values.items() if not _is_node(value)}
    return violations.signature_problems(expected, values, f"{path}.", supplied)


def inner_problems(path: str, value: Any) -> Problems:
    """The problems of the nodes inside a value, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    lines: Problems = {}
    for key, inner in items:
        if isinstance(inner, dict | list):
            check = problems if _is_node(inner) else inner_problems
            lines |= check(f"{path}.{key}", inner)
    return lines


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and "_target_" in value

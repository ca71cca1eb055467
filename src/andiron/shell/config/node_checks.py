"""Checks the nodes of a configuration, each a `_target_` and its arguments."""

from andiron import errors
from andiron.plain.plain_values import Named, Plain
from andiron.shell.config import project, trust, violations
from andiron.shell.config.signatures import shipped, signature
from andiron.shell.config.violations import Problems

FACTS = {  # about the data, known once it is read: `Splits.offered`
    "input_shape", "num_classes", "num_outputs", "class_names", "class_counts", "vocabulary",
    "vocabulary_size", "context_length", "bytes_per_token", "input_mean", "input_std",
    "target_mean", "target_std", "target_offset", "category_counts",
}  # fmt: skip
PASSED_ON = {  # by module: facts that its functions take by **kwargs
    "timm": {"num_classes", "in_chans"},
    "torchvision.models": {"num_classes"},
}
SUPPLIED = {  # by place: arguments that the run fills in where a node omits them or sets null
    "model": FACTS,
    "task": FACTS | {"network", "loss"},
    "metrics": FACTS | {"name"},
    "augmentation": FACTS | {"name"},
    "scheduler": {"num_updates"},
    "param_groups": {"model"},
    "checkpoint": {"direction", "folder"},
    "early_stopping": {"direction"},
    "observers": {"model", "run_dir"},
    "writers": {"run_dir", "path", "folder"},
    "render": {"run_dir"},
}
OF_OPTIMIZERS = ("torch.optim.lr_scheduler.", "transformers.", "timm.scheduler.")


def is_shipped(target: str) -> bool:
    """Whether a target is Andiron's, or another library's with known ranges."""
    return target.startswith("andiron.") or target in shipped()


def problems(plain: Named) -> Problems:
    """The problems of every node of a configuration, by option."""
    lines: Problems = {}
    for path, place, node in trust.nodes(plain):
        target = node["_target_"]
        if not isinstance(target, str):
            lines |= no_target(path, target)
        elif place == "scheduler" and target.startswith(OF_OPTIMIZERS):
            choices = (project.default_conf_dir() / place).glob("*.yaml")
            hint = errors.nearest(target.rpartition(".")[2], (choice.stem for choice in choices))
            reason = f"schedules an optimizer of torch, in Python; name a choice of scheduler{hint}"
            lines[f"{path}._target_"] = f"{path}._target_={target}: {reason}"
        else:
            lines |= argument_problems(target, arguments_of(node), path, place)
    return lines


def arguments_of(node: Named) -> Plain:
    """The arguments of a node, without its target."""
    return {key: value for key, value in node.items() if key not in ("_target_", "_partial_")}


def no_target(path: str, target: object) -> Problems:
    """The problem of a node whose `_target_` is not a text."""
    reason = "names no class or function; give its dotted name, such as torch.optim.Adam"
    return {f"{path}._target_": f"{path}._target_={target}: {reason}"}


def argument_problems(target: str, arguments: Named, path: str, place: str) -> Problems:
    """The problems of a target's arguments, as far as its source shows."""
    expected = signature(target)
    if expected is None:
        return {}
    supplied = SUPPLIED.get(place, set())
    is_own = not is_shipped(target)  # a node inside it is built first, and may become anything
    values = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in supplied
        if not (is_own and isinstance(value, dict) and "_target_" in value)
    }
    return violations.signature_problems(expected, values, f"{path}.", supplied)

"""The right place of a misplaced option: `optimizer.lr` is `lr`."""

from collections.abc import Iterator
from typing import Any

from andiron.config import node_checks
from andiron.config.signatures import Signature, signature
from andiron.config.violations import UNKNOWN, Options, Problems

OTHER_NAMES = {  # by their names in other codebases
    "learning_rate": "lr", "epochs": "num_epochs", "max_epochs": "num_epochs",
    "steps": "num_updates", "max_steps": "num_updates", "num_steps": "num_updates",
    "bs": "batch_size", "train_batch_size": "batch_size", "workers": "num_workers",
    "accumulate_grad_batches": "grads_accumulation", "gradient_clip_val": "clip",
    "grad_clip": "clip", "wd": "weight_decay", "random_seed": "seed", "amp": "precision",
    "ckpt_path": "resume", "gpus": "device", "accelerator": "device",
}  # fmt: skip


def corrected(problems: Problems, options: Signature, plain: Options) -> Problems:
    """The problems, with the right place of each unknown option whose name is valid elsewhere.

    `options` are the options of a run; they precede the arguments of the nodes in `plain`.
    """
    unknown = [option for option, line in problems.items() if line.startswith(f"{option}{UNKNOWN}")]
    if not unknown:
        return problems
    places = {name: [name] for name in options.parameters}
    for name, place in _node_arguments(plain):
        if name not in options.parameters:
            places.setdefault(name, []).append(place)
    hints = {}
    for option in unknown:
        name = option.rpartition(".")[2]
        if right := places.get(name) or places.get(OTHER_NAMES.get(name, "")):
            hints[option] = f"{option}{UNKNOWN}; did you mean {' or '.join(map(repr, right))}?"
    return problems | hints


def _node_arguments(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The arguments of every node at any depth, each with its dotted place."""
    if not isinstance(value, dict):
        return
    target = value.get("_target_")
    expected = signature(target) if isinstance(target, str) else None
    supplied = node_checks.SUPPLIED.get(path.partition(".")[0], set())
    for name in expected.parameters if expected else ():
        if name not in supplied:
            yield name, f"{path}.{name}"
    for name, inner in value.items():
        yield from _node_arguments(inner, f"{path}.{name}" if path else str(name))

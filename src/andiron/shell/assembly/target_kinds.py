"""Checks the kinds of objects that a recorded configuration names, before any is built.

`andiron.shell.config.trust` has already refused other names, so only Andiron, torch, torchvision
and what the user trusts are imported here.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn, optim

from andiron.plain.plain_values import Named
from andiron.shell.assembly import targets
from andiron.shell.config import node_checks, trust

PLACES = node_checks.SUPPLIED["writers"]  # arguments that the run fills in, all inside its folder
TENSOR_FUNCTIONS = ("torch.nn.functional", "torch._C._nn", "torch")  # their modules
BASES = {
    "torch.nn": nn.Module,
    "torch.optim": optim.Optimizer,
    "torchvision.transforms.v2": nn.Module,
}


def check(plain: Named, trusted: trust.Trust) -> None:
    """Refuses a name in a configuration of another kind of object than its module is listed for.

    Raises: ConfigError listing every such name.
    """
    trusted.check(plain)
    refused = dict(pair for node in trust.nodes(plain) for pair in _refusals(*node, trusted))
    if refused:
        raise trust.refusal(refused, trusted)


def _refusals(
    option: str, place: str, node: Named, trusted: trust.Trust
) -> Iterator[tuple[str, Any]]:
    name = node["_target_"]
    target = targets.resolve(f"{option}._target_", name)
    if not _is_of_kind(target, name):
        yield f"{option}._target_", name
        return
    arguments = node_checks.arguments_of(node)
    parameters = inspect.signature(target).parameters
    for key, function in targets.named_functions(parameters, arguments).items():
        named = f"{option}.{key}"
        if not trusted.allows(function) or not _is_of_kind(
            targets.resolve(named, function), function
        ):
            yield named, function
    of_others = {"weights"} if name.startswith("torchvision.models.") else set()
    for key in PLACES if name.startswith("andiron.writers.") else of_others:
        if arguments.get(key) is not None:
            yield f"{option}.{key}", arguments[key]


def _is_of_kind(target: object, name: str) -> bool:
    """Whether an object of torch's is of the kind that its module is listed for."""
    module = name.rpartition(".")[0]
    if module in BASES:
        return inspect.isclass(target) and issubclass(target, BASES[module])
    if module == "torch.nn.functional":
        is_of_torch = getattr(target, "__module__", None) in TENSOR_FUNCTIONS
        return is_of_torch and inspect.isroutine(target)
    if module == "torchvision.models":
        from torchvision import models

        return target in map(models.get_model_builder, models.list_models(module=models))
    return True

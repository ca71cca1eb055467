"""Checks the kinds of objects that a recorded configuration names, before any is built.

`andiron.shell.config.trust` has already refused unlisted names, so only Andiron, torch, torchvision
and what the user trusts are imported here.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn, optim

from andiron.shell.assembly import targets
from andiron.shell.config import node_checks, trust
from andiron.shell.config.trust import Option, Trust

PLACES = node_checks.SUPPLIED["writers"]  # arguments that the run fills in, all inside its folder
TENSOR_FUNCTIONS = ("torch.nn.functional", "torch._C._nn", "torch")  # their modules


def check(plain: Mapping[str, Any], trusted: Trust) -> None:
    """Refuses a name in a configuration of another kind of object than its option takes.

    Raises: ConfigError listing every such name.
    """
    trusted.check(plain)
    refused = [each for node in trust.nodes(plain) for each in _refusals(*node, trusted)]
    if refused:
        raise trust.refusal(refused, trusted)


def _refusals(option: str, place: str, node: dict[str, Any], trusted: Trust) -> Iterator[Option]:
    name = node["_target_"]
    target = targets.resolve(f"{option}._target_", name)
    if not _is_of_kind(target, name):
        yield f"{option}._target_", place, name
        return
    arguments = {key: value for key, value in node.items() if not key.startswith("_")}
    parameters = inspect.signature(target).parameters
    for key, function in targets.named_functions(parameters, arguments).items():
        option_of_key = f"{option}.{key}"
        if not trusted.allows(place, function) or not _is_of_kind(
            targets.resolve(option_of_key, function), function
        ):
            yield option_of_key, place, function
    if place == "writers" and name.startswith("andiron."):
        yield from ((f"{option}.{key}", place, arguments[key]) for key in PLACES & {*arguments})
    elif name.startswith("torchvision.models.") and arguments.get("weights") is not None:
        yield f"{option}.weights", place, arguments["weights"]


def _is_of_kind(target: Any, name: str) -> bool:
    """Whether another library's object is of the kind listed for its module."""
    match name.rpartition(".")[0]:
        case "torch.nn":
            return _is_subclass(target, nn.Module)
        case "torch.nn.functional":
            is_of_torch = getattr(target, "__module__", None) in TENSOR_FUNCTIONS
            return is_of_torch and inspect.isroutine(target)
        case "torch.optim":
            return _is_subclass(target, optim.Optimizer)
        case "torch.optim.lr_scheduler":
            return _is_subclass(target, optim.lr_scheduler.LRScheduler)
        case "torchvision.models":
            from torchvision import models

            return target in map(models.get_model_builder, models.list_models(module=models))
        case "torchvision.transforms.v2":
            from torchvision.transforms import v2

            return _is_subclass(target, v2.Transform)
    return True


def _is_subclass(target: Any, base: type) -> bool:
    return inspect.isclass(target) and issubclass(target, base)

"""Constructs a torch optimizer from its class, and inspects what its steps need."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors

Kind = type[torch.optim.Optimizer]


def named_parameters(model: nn.Module, names: Collection[str] | None) -> dict[str, nn.Parameter]:
    """The named parameters in the model's order; by default every trainable one.

    Raises: ValueError for a name that no parameter has.
    """
    own = dict(model.named_parameters())
    if names is None:
        names = [name for name, parameter in own.items() if parameter.requires_grad]
    unknown = [f"{name!r}{errors.nearest(name, own)}" for name in names if name not in own]
    if unknown:
        raise ValueError(f"{type(model).__name__} has no parameter named {', '.join(unknown)}")
    wanted = {*names}
    return {name: parameter for name, parameter in own.items() if name in wanted}


def constructed(
    kind: Kind, parameters: Mapping[str, nn.Parameter], options: Mapping[str, Any]
) -> Any:
    """The torch optimizer of these parameters.

    Raises: ValueError naming every refused parameter; the class's own error for refused options.
    """
    options = {**_defaults(kind, options), **options}
    try:
        return without_dynamo(kind)(list(parameters.values()), **options)
    except ValueError as error:
        refused = [
            f"{key!r} {list(tensor.shape)}"
            for key, tensor in parameters.items()
            if not _accepts(kind, tensor, options)
        ]
        if not refused or not _accepts(kind, torch.zeros(2, 2), options):
            raise
        raise ValueError(
            f"{public_name(kind)} does not take {', '.join(refused)}; give them to another group "
            f"({error})"
        ) from error


def public_options(kind: Kind, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's options, without entries that the class adds for itself."""
    accepted = inspect.signature(kind).parameters
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    return {
        name: value
        for name, value in defaults.items()
        if name != "lr" and (is_open or name in accepted)
    }


def needs_closure(step: Callable[..., Any]) -> bool:
    """Whether an optimizer's `step` requires a closure."""
    closure = inspect.signature(step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def public_name(kind: Kind) -> str:
    """`torch.optim.Adam` instead of the module that defines it; other classes by their module."""
    is_public = getattr(torch.optim, kind.__name__, None) is kind
    return f"{'torch.optim' if is_public else kind.__module__}.{kind.__name__}"


def without_dynamo(kind: Kind) -> Kind:
    """The class without the wrappers that import torch._dynamo before the first step.

    The import takes 1.4 s and is needed only by a compiled `step`. The wrappers also disable
    gradients, which `Optimizer.step` does itself. A third-party class has only torch's methods
    unwrapped.
    """
    methods = {name: getattr(kind, name) for name in ("add_param_group", "step")}
    plain = {
        name: inspect.unwrap(method)
        for name, method in methods.items()
        if method.__module__.startswith("torch.optim.")
    }
    return type(kind.__name__, (kind,), plain)


def _accepts(kind: Kind, tensor: Tensor, options: Mapping[str, Any]) -> bool:
    try:
        kind([tensor], **options)
    except ValueError:
        return False
    return True


def _defaults(kind: Kind, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fastest implementation of the class, unless the options choose one.

    Also a learning rate if the constructor requires one; every step passes its own.
    """
    takes = inspect.signature(kind).parameters
    chosen = options.get("differentiable") or options.keys() & {"fused", "foreach"}
    fastest = [name for name in ("fused", "foreach") if name in takes and not chosen]
    lr = {"lr": 1.0} if "lr" in takes and takes["lr"].default is inspect.Parameter.empty else {}
    return dict.fromkeys(fastest[:1], True) | lr

"""How the torch optimizer behind the functional face is made of its class, and what the class tells beforehand."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors

CAPTURE_CHECKS = (
    "_accelerator_graph_capture_health_check",
    "_cuda_graph_capture_health_check",
)  # torch 2.14, and before


def owned(model: nn.Module, names: Collection[str] | None) -> dict[str, nn.Parameter]:
    """The parameters of these names in the model's order; without names, every trainable one.

    Raises: ValueError for a name that no parameter has.
    """
    known = dict(model.named_parameters())
    if names is None:
        return {name: parameter for name, parameter in known.items() if parameter.requires_grad}
    unknown = [f"{name!r}{errors.nearest(name, known)}" for name in names if name not in known]
    if unknown:
        raise ValueError(f"{type(model).__name__} has no parameter named {', '.join(unknown)}")
    wanted = {*names}
    return {name: parameter for name, parameter in known.items() if name in wanted}


def constructed(
    inner_class: type[torch.optim.Optimizer],
    name: str,
    parameters: Mapping[str, nn.Parameter],
    options: Mapping[str, Any],
) -> Any:
    """The torch optimizer over these parameters.

    Raises: ValueError naming every parameter that the class does not take; its own error if it is the options.
    """
    options = {**_required(inner_class), **_fastest(inner_class, options), **options}
    try:
        return inner_class(list(parameters.values()), **options)
    except ValueError as error:
        refused = [] if not _takes(inner_class, torch.zeros(2, 2), options) else [
            f"{key!r} {list(tensor.shape)}" for key, tensor in parameters.items() if not _takes(inner_class, tensor, options)
        ]  # fmt: skip
        if not refused:  # it is the options that are wrong
            raise
        raise ValueError(
            f"{name} does not take {', '.join(refused)}; give them to another group ({error})"
        ) from error


def told(
    optimizer_class: type[torch.optim.Optimizer], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """The options that the class takes, without what it keeps among them for its own use."""
    known = inspect.signature(optimizer_class).parameters.values()
    names = {parameter.name for parameter in known}
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known)
    return {
        name: value
        for name, value in defaults.items()
        if name != "lr" and (is_open or name in names)
    }


def needs_closure(step: Callable[..., Any]) -> bool:
    """Whether an optimizer's `step` cannot do without one."""
    closure = inspect.signature(step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def overwrites_gradients(optimizer_class: type[torch.optim.Optimizer]) -> bool:
    """Whether its `step` may calculate in the gradients themselves: torch's own do not, schedulefree's do."""
    return not _is_in_torch(optimizer_class.step)


def public_name(optimizer_class: type[torch.optim.Optimizer]) -> str:
    """`torch.optim.Adam` rather than the module it is defined in; any other class by its module."""
    name = optimizer_class.__name__
    module = (
        "torch.optim"
        if getattr(torch.optim, name, None) is optimizer_class
        else optimizer_class.__module__
    )
    return f"{module}.{name}"


def without_dynamo(optimizer_class: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """The class without the wrappers by which torch's own methods import torch._dynamo on the way to their first step.

    That import takes 1.4 s and serves only a compiled `step`. What they also do, switching gradients off, the functional
    `step` does itself. Of a class from elsewhere only what it has from torch is unwrapped.
    """
    methods = {name: getattr(optimizer_class, name) for name in ("add_param_group", "step")}
    plain = {
        name: inspect.unwrap(method) for name, method in methods.items() if _is_in_torch(method)
    }
    checks = {
        name: _not_on_a_cpu(getattr(optimizer_class, name))
        for name in CAPTURE_CHECKS
        if hasattr(optimizer_class, name)
    }
    return type(optimizer_class.__name__, (optimizer_class,), plain | checks)


def _not_on_a_cpu(
    check: Callable[[torch.optim.Optimizer], None],
) -> Callable[[torch.optim.Optimizer], None]:
    """Torch's question at each step whether a GPU's work is being captured: 3 us, and on a CPU the answer is known."""

    def asked(optimizer: torch.optim.Optimizer) -> None:
        if not optimizer.param_groups[0]["params"][0].is_cpu:
            check(optimizer)

    return asked


def _is_in_torch(method: Callable[..., Any]) -> bool:
    return method.__module__.startswith("torch.optim.")


def _takes(
    inner_class: type[torch.optim.Optimizer], tensor: Tensor, options: Mapping[str, Any]
) -> bool:
    try:
        inner_class([tensor], **options)
    except ValueError:
        return False
    return True


def _required(optimizer_class: type[torch.optim.Optimizer]) -> dict[str, Any]:
    """A learning rate for the constructors that insist on one; each step is told its own."""
    lr = inspect.signature(optimizer_class).parameters.get("lr")
    return {"lr": 1.0} if lr is not None and lr.default is lr.empty else {}


def _fastest(
    optimizer_class: type[torch.optim.Optimizer], options: Mapping[str, Any]
) -> dict[str, Any]:
    known = inspect.signature(optimizer_class).parameters
    if options.get("differentiable") or "fused" in options or "foreach" in options:
        return {}
    for name in ("fused", "foreach"):
        if name in known:
            return {name: True}
    return {}

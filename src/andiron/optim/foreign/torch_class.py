"""Constructs a torch optimizer from its class, and inspects what its steps need."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.plain.plain_values import Named, Plain

Kind = type[torch.optim.Optimizer]
OWN = ("torch.optim.", "andiron.optim.")  # classes whose steps and states are known


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


def is_own(kind: Kind) -> bool:
    """Whether torch or Andiron has the class."""
    return f"{kind.__module__}.".startswith(OWN)


def takes(kind: Kind, option: str) -> bool:
    """Whether its constructor has an option, or takes any."""
    accepted = inspect.signature(kind).parameters
    return option in accepted or any(p.kind is p.VAR_KEYWORD for p in accepted.values())


def needs_rate(kind: Kind, options: Named) -> bool:
    """Whether a class of another package takes the run's rate, and these options have none."""
    return not is_own(kind) and "lr" not in options and takes(kind, "lr")


def _is_plain(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> bool:
    """Whether the fast implementations take the parameters and their gradients."""
    has_sparse = any(getattr(module, "sparse", False) for module in model.modules())
    return not has_sparse and all(map(torch.is_floating_point, parameters.values()))


def constructed(
    kind: Kind,
    model: nn.Module,
    groups: Sequence[Mapping[str, nn.Parameter]],
    options: Sequence[Named],
    rates: Sequence[float] | None = None,
) -> Any:
    """The torch optimizer of these groups, with their options and, if known, their rates.

    Raises: ValueError naming every refused parameter; the class's own error for refused options.
    """
    parameters = {name: parameter for group in groups for name, parameter in group.items()}
    is_fast = is_own(kind) and _is_plain(model, parameters)
    rate = rates[0] if rates else None
    first = {**_defaults(kind, options[0], rate, is_fast), **options[0]}
    try:
        inner: Any = without_dynamo(kind)(_held(groups, options, rates), **first)
    except ValueError as error:
        refused = [
            f"{key!r} {list(tensor.shape)}"
            for key, tensor in parameters.items()
            if not _accepts(kind, tensor, first)
        ]
        if not refused or not _accepts(kind, torch.zeros(2, 2), first):
            raise
        raise ValueError(
            f"{public_name(kind)} does not take {', '.join(refused)}; give them to another group "
            f"({error})"
        ) from error
    except Exception as error:
        if is_own(kind) or isinstance(error, TypeError):
            raise
        why = f"{public_name(kind)} does not take a list of parameters ({errors.one_line(error)})"
        remedy = "construct it with what it takes, and give that optimizer to LearnerBuilder.build"
        raise errors.MismatchError(f"{why}; {remedy}") from error
    _check_options(inner, options)
    return inner


def _held(
    groups: Sequence[Mapping[str, nn.Parameter]],
    options: Sequence[Named],
    rates: Sequence[float] | None,
) -> list[Any]:
    """The parameters of the only group, or a dict for each with what differs from the first."""
    if len(groups) == 1:
        return [*groups[0].values()]
    return [
        {"params": [*group.values()]}
        | {key: value for key, value in own.items() if value != options[0].get(key)}
        | ({"lr": rates[number]} if rates and rates[number] != rates[0] else {})
        for number, (group, own) in enumerate(zip(groups, options))
    ]


def _check_options(inner: Any, options: Sequence[Named]) -> None:
    """Refuses options in which groups differ although the class has one value for all.

    Raises: MismatchError.
    """
    given = {option for own in options for option in own}
    for name in sorted(given - inner.defaults.keys()):
        values = [own.get(name) for own in options]
        if any(value != values[0] for value in values):
            kind = type(inner).__name__
            why = f"{name} is {values} by group, and {kind} has one value for all: give it one"
            raise errors.MismatchError(why)


def needs_closure(step: Callable[..., object]) -> bool:
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
    names = ("add_param_group", "step", "state_dict", "load_state_dict")
    methods = {name: getattr(kind, name) for name in names}
    plain = {
        name: inspect.unwrap(method)
        for name, method in methods.items()
        if method.__module__.startswith("torch.optim.")
    }
    return type(kind.__name__, (kind,), plain)


def _accepts(kind: Kind, tensor: Tensor, options: Named) -> bool:
    try:
        kind([tensor], **options)
    except (ValueError, RuntimeError):
        return False
    return True


def _defaults(kind: Kind, options: Named, rate: float | None, is_fast: bool) -> Plain:
    """The fastest implementation of a class of torch, unless the options choose one.

    Also the learning rate, or one if the constructor has none; every step passes its own.
    """
    takes = inspect.signature(kind).parameters
    chosen = options.get("differentiable") or options.keys() & {"fused", "foreach"}
    names = ("fused", "foreach") if is_fast and not chosen else ()
    fastest = [name for name in names if name in takes]
    fast = dict.fromkeys(fastest[:1], True)
    if rate is None and "lr" in takes and not isinstance(takes["lr"].default, int | float | Tensor):
        rate = 1.0
    return fast if rate is None else {**fast, "lr": rate}

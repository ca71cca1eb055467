"""Fused kernels of torch's Adam, AdamW and SGD, called for all parameters at once.

`torch.optim` groups the tensors by device and dtype at every step: for an MLP with four tensors
that takes 36 of 50 us. Kernel and arguments are the same, and so are the bits. Options, parameters
and state are read at each step, so that whoever changes them between two steps is followed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import is_, itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from andiron.optim import torch_class
from andiron.plain import fast_paths

Options = Mapping[str, Any]
ADAM = ("eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay")  # and betas
SGD = ("momentum", "dampening", "nesterov", "weight_decay", "maximize")
NAMES = {torch.optim.Adam: ADAM, torch.optim.AdamW: ADAM, torch.optim.SGD: SGD}
# the options of a group that its kernel reads
OPTIONS: dict[Any, Callable[[Options], tuple[Any, ...]]] = {
    kind: itemgetter(*names) for kind, names in NAMES.items()
}
PLAIN = {bool, int, float}
ONE = torch.tensor(1.0)  # on a CPU adding it takes 4 us, adding 1 takes 9
# values for the comparison of a kernel with its optimizer
TRIED = {"eps": 1e-3, "weight_decay": 0.1, "momentum": 0.7, "dampening": 0.2}
# torch 2.14, and before; on a GPU they refuse a graph capture that would repeat one learning rate
CAPTURE_CHECKS = ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check")


def stepped(
    kind: Any, inner: Any, parameters: Sequence[Tensor], gradients: list[Tensor], lr: float
) -> bool:
    """Whether the kernel made the step of `inner`, of class `kind`; else nothing has changed.

    It does not for parameters on several devices, of several types, in subclasses of Parameter or
    without state, for options that are tensors, and where torch's kernel in this version differs
    from its optimizer.
    """
    group = inner.param_groups[0]
    if kind not in OPTIONS or not _is_plain(inner, group, parameters, lr):
        return False
    values = OPTIONS[kind](group)
    kinds = {(type(p), p.dtype, p.get_device()) for p in parameters}
    numbers = {*map(type, values), *map(type, group.get("betas", ()))}
    if len(kinds) > 1 or type(parameters[0]) is not nn.Parameter or not numbers <= PLAIN:
        return False
    slots = _slots(kind, group, [inner.state.get(parameter) for parameter in parameters])
    first, flags = parameters[0], tuple(map(bool, values))
    if slots is None or not _agrees(kind, flags, first.dtype, first.device):
        return False
    if not fast_paths.may_take("fused step"):
        return False
    if first.is_cuda:
        next((getattr(inner, name) for name in CAPTURE_CHECKS if hasattr(inner, name)), bool)()
    _run(kind, group, slots, parameters, gradients, lr)
    return True


def _is_plain(inner: Any, group: Options, parameters: Sequence[Tensor], lr: float) -> bool:
    """Whether torch would step exactly these parameters by the fused kernel."""
    return (
        isinstance(lr, float)
        and not isinstance(group["lr"], Tensor)
        and bool(group.get("fused"))
        and not (group.get("differentiable") or group.get("capturable"))
        and len(inner.param_groups) == 1
        and len(group["params"]) == len(parameters)
        and all(map(is_, group["params"], parameters))
        and getattr(inner, "grad_scale", None) is None
        and getattr(inner, "found_inf", None) is None
    )


def _slots(kind: Any, group: Options, states: list[Any]) -> list[list[Tensor]] | None:
    """The state tensors in the kernel's order, one list a slot; None if any is missing."""
    if kind is torch.optim.SGD:
        names = ["momentum_buffer"] if group["momentum"] else []
    else:
        names = ["exp_avg", "exp_avg_sq", "step", *["max_exp_avg_sq"] * bool(group["amsgrad"])]
    try:
        slots = [list(map(itemgetter(name), states)) for name in names]
    except (KeyError, TypeError):  # no step yet
        return None
    return None if slots and any(each is None for each in slots[0]) else slots


def _run(
    kind: Any,
    group: Options,
    slots: list[list[Tensor]],
    parameters: Sequence[Tensor],
    gradients: list[Tensor],
    lr: float,
) -> None:
    if kind is torch.optim.SGD:
        torch._fused_sgd_(
            [*parameters],
            gradients,
            slots[0] if slots else [],
            lr=lr,
            momentum=group["momentum"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
            is_first_step=False,
            grad_scale=None,
            found_inf=None,
        )
        return
    means, squares, steps, *largest = slots
    beta1, beta2 = group["betas"]
    if steps[0].is_cpu:
        torch._foreach_add_(steps, ONE, alpha=1.0)
    else:
        torch._foreach_add_(steps, 1)
    (torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_)(
        [*parameters],
        gradients,
        means,
        squares,
        largest[0] if largest else [],
        steps,
        lr=lr,
        beta1=beta1,
        beta2=beta2,
        eps=group["eps"],
        weight_decay=group["weight_decay"],
        amsgrad=group["amsgrad"],
        maximize=group["maximize"],
        grad_scale=None,
        found_inf=None,
    )


@cache
def _agrees(
    kind: Any, flags: tuple[bool, ...], dtype: torch.dtype, device: torch.device
) -> bool:
    """Whether the second step of a small tensor equals torch's own bit for bit.

    `flags` are the options that are not zero: which numbers they are does not matter.
    """
    if device.type not in ("cpu", "cuda"):
        return False
    options = [*zip(NAMES[kind], flags)]
    values = torch.linspace(-1, 1, 5).to(device, dtype)
    twins = [nn.Parameter(values.clone()) for _ in range(2)]
    plain: Any = torch_class.without_dynamo(kind)
    ours, theirs = optimizers = [plain([twin], lr=0.1, fused=True) for twin in twins]
    for optimizer, twin in zip(optimizers, twins):
        optimizer.param_groups[0].update(
            {name: TRIED[name] * is_set if name in TRIED else is_set for name, is_set in options}
        )
        twin.grad = values.square()
        optimizer.step()
    theirs.step()
    group, state = ours.param_groups[0], ours.state[twins[0]]
    try:
        if (slots := _slots(kind, group, [state])) is None:
            return False
        _run(kind, group, slots, twins[:1], [values.square()], 0.1)
    except (AttributeError, KeyError, TypeError, RuntimeError):
        return False
    states = ([twin, *each.state[twin].values()] for each, twin in zip(optimizers, twins))
    return all(torch.equal(*pair) for pair in zip(*states) if isinstance(pair[0], Tensor))

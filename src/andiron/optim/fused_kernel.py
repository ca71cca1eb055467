"""Fused kernels of torch's Adam, AdamW and SGD, called with lists kept between steps.

`torch.optim` collects the lists anew at every step and groups them by device and dtype: for an MLP
with four tensors that takes 36 of 50 us. Kernel and arguments are the same, and so are the bits.
"""

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Kind = type[torch.optim.Optimizer]
Options = dict[str, Any]
SlotTensors = Callable[[str], list[Tensor]]  # the state in a slot, for every parameter
Kernel = partial[None]
# torch 2.14, and before; on a GPU they refuse a graph capture that would repeat one learning rate
CAPTURE_CHECKS = ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check")


class FusedStep(NamedTuple):
    """A step of all parameters: `check()`, add 1 to `counters`, then call the kernel."""

    kernel: Callable[..., None]  # of the gradients in the order of the parameters, and lr=
    counters: list[Tensor]
    check: Callable[[], None] | None


def is_known(kind: Kind, options: Options) -> bool:
    """Whether steps of this class with these options are one call of a fused kernel."""
    plain = not any(options.get(name) for name in ("differentiable", "capturable"))
    numbers = (*options.get("betas", ()), *(options.get(name, 0) for name in ("eps", "momentum")))
    is_float = all(isinstance(number, int | float) for number in numbers)
    known = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
    return bool(kind in known and options.get("fused") and plain and is_float)


def prepared(inner: Any) -> FusedStep | None:
    """The step of `inner`, whose class `is_known` and which has stepped all parameters.

    None for parameters on several devices, of several types, or in subclasses of Parameter, and if
    this version of torch's kernel differs from its optimizer.
    """
    group, like = inner.param_groups[0], inner.param_groups[0]["params"][0]
    options = ((name, group[name]) for name in inner.defaults if name != "lr")
    plain = tuple((name, tuple(of) if isinstance(of, list) else of) for name, of in options)
    kind: Any = type(inner)
    return _step(inner) if _agrees(kind, plain, like.dtype, like.device) else None


@cache
def _agrees(
    kind: Any, options: tuple[tuple[str, Any], ...], dtype: torch.dtype, device: torch.device
) -> bool:
    """Whether the second step of a small tensor equals torch's own bit for bit."""
    values = torch.linspace(-1, 1, 5).to(device, dtype)
    accepted = inspect.signature(kind).parameters
    arguments = {name: value for name, value in options if name in accepted}
    twins = [nn.Parameter(values.clone()) for _ in range(2)]
    ours, theirs = optimizers = [kind([twin], lr=0.1, **arguments) for twin in twins]
    for optimizer, twin in zip(optimizers, twins):
        twin.grad = values.square()
        optimizer.step()
    theirs.step()
    try:
        if (fused := _step(ours)) is None:
            return False
        if fused.counters:
            torch._foreach_add_(fused.counters, 1)
        fused.kernel([values.square()], lr=0.1)
    except (AttributeError, KeyError, TypeError, RuntimeError):
        return False
    states = ([twin, *each.state[twin].values()] for each, twin in zip(optimizers, twins))
    return all(torch.equal(*pair) for pair in zip(*states) if isinstance(pair[0], Tensor))


def _step(inner: Any) -> FusedStep | None:
    group = inner.param_groups[0]
    parameters = group["params"]
    device = parameters[0].device
    types = {(type(p), p.device, p.dtype) for p in parameters}
    if types != {(nn.Parameter, device, parameters[0].dtype)} or device.type not in ("cpu", "cuda"):
        return None

    def slot_tensors(slot: str) -> list[Tensor]:
        return [inner.state[parameter][slot] for parameter in parameters]

    kernel = (_sgd if isinstance(inner, torch.optim.SGD) else _adam)(group, slot_tensors)
    checks = [name for name in CAPTURE_CHECKS if device.type == "cuda" and hasattr(inner, name)]
    return FusedStep(
        partial(kernel, parameters, grad_scale=None, found_inf=None),
        kernel.keywords.get("state_steps", []),
        getattr(inner, checks[0]) if checks else None,
    )


def _adam(group: Options, slot_tensors: SlotTensors) -> Kernel:
    return partial(
        torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_,
        exp_avgs=slot_tensors("exp_avg"),
        exp_avg_sqs=slot_tensors("exp_avg_sq"),
        max_exp_avg_sqs=slot_tensors("max_exp_avg_sq") if group["amsgrad"] else [],
        state_steps=slot_tensors("step"),
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        **{name: group[name] for name in ("weight_decay", "eps", "amsgrad", "maximize")},
    )


def _sgd(group: Options, slot_tensors: SlotTensors) -> Kernel:
    options = ("weight_decay", "momentum", "dampening", "nesterov", "maximize")
    return partial(
        torch._fused_sgd_,
        momentum_buffer_list=slot_tensors("momentum_buffer") if group["momentum"] else [],
        is_first_step=False,
        **{name: group[name] for name in options},
    )

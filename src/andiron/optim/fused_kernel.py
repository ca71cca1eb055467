"""Fused kernels of torch's Adam, AdamW and SGD, called with lists kept between steps.

`torch.optim` collects the lists anew at every step and groups them by device and dtype: for an MLP
with four tensors that takes 36 of 50 us. Kernel and arguments are the same, and so are the bits.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from andiron.gradients import IS_KNOWN_TORCH

Kind = type[torch.optim.Optimizer]
# torch 2.14, and before; on a GPU they refuse a graph capture that would repeat one learning rate
CAPTURE_CHECKS = ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check")


class FusedStep(NamedTuple):
    """A step for gradients of all parameters: `check()`, 1 added to `counters`, then the kernel."""

    kernel: Callable[..., None]  # of the gradients in the order of the parameters, and lr=
    counters: list[Tensor]
    check: Callable[[], None] | None


def is_known(kind: Kind, options: dict[str, Any]) -> bool:
    """Whether steps of this class with these options are one call of a fused kernel."""
    plain = not any(options.get(name) for name in ("differentiable", "capturable"))
    numbers = (*options.get("betas", ()), *(options.get(name, 0) for name in ("eps", "momentum")))
    is_float = all(isinstance(number, int | float) for number in numbers)
    known = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
    return bool(IS_KNOWN_TORCH and kind in known and options.get("fused") and plain and is_float)


def prepared(kind: Kind, inner: Any) -> FusedStep | None:
    """The step of `inner`, an optimizer of a class that `is_known`; None before it has its state.

    None also for parameters on several devices, of several types, or in subclasses of Parameter.
    """
    parameters = inner.param_groups[0]["params"]
    device = parameters[0].device
    types = {(type(each), each.device, each.dtype) for each in parameters}
    if types != {(nn.Parameter, device, parameters[0].dtype)} or device.type not in ("cpu", "cuda"):
        return None
    try:
        kernel, counters = (_sgd if kind is torch.optim.SGD else _adam)(inner, parameters)
    except KeyError:  # a parameter that has not been stepped has no state
        return None
    names = [name for name in CAPTURE_CHECKS if device.type == "cuda" and hasattr(inner, name)]
    return FusedStep(kernel, counters, getattr(inner, names[0]) if names else None)


def _adam(inner: Any, parameters: list[Tensor]) -> tuple[Callable[..., None], list[Tensor]]:
    group = inner.param_groups[0]
    beta1, beta2 = group["betas"]
    slots = {
        slot: [inner.state[parameter][slot] for parameter in parameters]
        for slot in ("exp_avg", "exp_avg_sq", "step", *["max_exp_avg_sq"] * group["amsgrad"])
    }
    kernel = partial(
        torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_,
        parameters,
        exp_avgs=slots["exp_avg"],
        exp_avg_sqs=slots["exp_avg_sq"],
        max_exp_avg_sqs=slots.get("max_exp_avg_sq", []),
        state_steps=slots["step"],
        beta1=beta1,
        beta2=beta2,
        **{name: group[name] for name in ("weight_decay", "eps", "amsgrad", "maximize")},
        grad_scale=None,
        found_inf=None,
    )
    return kernel, slots["step"]


def _sgd(inner: Any, parameters: list[Tensor]) -> tuple[Callable[..., None], list[Tensor]]:
    group = inner.param_groups[0]
    has_momentum = group["momentum"] != 0
    buffers = [inner.state[each]["momentum_buffer"] for each in parameters] if has_momentum else []
    if any(buffer is None for buffer in buffers):
        raise KeyError("momentum_buffer")
    options = ("weight_decay", "momentum", "dampening", "nesterov", "maximize")
    kernel = partial(
        torch._fused_sgd_,
        parameters,
        momentum_buffer_list=buffers,
        **{name: group[name] for name in options},
        is_first_step=False,
        grad_scale=None,
        found_inf=None,
    )
    return kernel, []

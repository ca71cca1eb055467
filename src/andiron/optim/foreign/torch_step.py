"""One step of a torch optimizer: by its fused kernel for all parameters at once, or by its `step`.

Fused Adam, AdamW and SGD group the tensors by device and dtype at every step: for an MLP with four
tensors that takes 36 of 50 us. Kernel and arguments are the same, and so are the bits. What a step
reads (options, parameters, state) is compared with what the kernel was prepared for, object by
object, so that whoever changes it between two steps is followed.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from andiron.gradients import Gradients
from andiron.optim.foreign import torch_class
from andiron.optim.own.flat_state import Groups
from andiron.plain import fast_paths, private_torch

MODES = ("fused", "differentiable", "capturable")
ADAM = (*MODES, "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay")  # and betas
SGD = (*MODES, "momentum", "dampening", "nesterov", "weight_decay", "maximize")
OPTIONS: dict[Any, tuple[str, ...]] = {
    torch.optim.Adam: ADAM, torch.optim.AdamW: ADAM, torch.optim.SGD: SGD
}  # fmt: skip
# of a group's gradients, rate and flag
Kernel = Callable[[list[Tensor], float | Tensor, Tensor | None], None]
# types of device whose rates are rounded to float32, as a graph's rates in a tensor are
ROUNDING = {"cuda"}
PLAIN = {bool, int, float}
DTYPE: Any = attrgetter("dtype")
ONE = torch.tensor(1.0)  # on a CPU adding it takes 4 us, adding 1 takes 9
# values for the comparison of a kernel with its optimizer
TRIED = {"eps": 1e-3, "weight_decay": 0.1, "momentum": 0.7, "dampening": 0.2}


class TorchStep:
    """The steps of `inner`, of class `kind`, with the gradients in its parameters' `.grad`."""

    def __init__(self, kind: torch_class.Kind, inner: Any):
        self._inner, self._options = inner, OPTIONS.get(kind)
        self._kind: Any = kind
        self._kernels: list[Kernel] = []  # of the groups
        self._made_of: list[Any] = []  # the objects that they were prepared for
        self._is_on_gpu = False
        # torch wraps it for its profiler later, at 30 us a step
        self.plain: Callable[..., Any] = torch_class.without_dynamo(kind).step

    def set_rates(self, rates: Sequence[float]) -> Sequence[float]:
        """Sets the rates of the groups in the next step, and returns them, rounded on a GPU."""
        groups = self._inner.param_groups
        if self._options is not None and groups[0]["params"][0].device.type in ROUNDING:
            rates = [float(np.float32(rate)) for rate in rates]
        for group, rate in zip(groups, rates):
            set_rate(group, rate)
        return rates

    def public(self, *closure: Callable[[], Tensor]) -> None:
        """The step by the class's `step`, without torch's wrappers if nobody needs them.

        Torch's fused SGD refuses parameters with momentum beside others whose first gradient comes
        now: it steps those by themselves.
        """
        inner = self._inner
        if (own := own_step(inner)) is not None:
            own(*closure)
            return
        is_wrapped = private_torch.has_hooks(inner) or not fast_paths.on["plain step"]
        step = type(inner).step if is_wrapped else self.plain
        late = {parameter: parameter.grad for parameter in _without_momentum(inner)}
        for parameter in late:
            parameter.grad = None
        step(inner, *closure)
        if late:
            for parameter in chain.from_iterable(g["params"] for g in inner.param_groups):
                parameter.grad = late.get(parameter)
            step(inner, *closure)

    def by_kernel(
        self, groups: Groups, gradients: Gradients, rates: Sequence[float]
    ) -> bool:
        """Whether the fused kernel made the step of each group; else nothing has changed.

        The step changes nothing if the gradients' flag is 1.
        """
        kernels = self.kernels(groups, rates)
        if kernels and self._is_on_gpu and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f"a graph of this step would repeat the rates {rates}")
        for kernel, named, lr in zip(kernels, groups, rates):
            kernel([gradients[name] for name in named], lr, gradients.flag)
        return bool(kernels)

    def kernels(self, groups: Groups, rates: Sequence[float]) -> list[Kernel]:
        """The fused kernels of the groups, the former list if nothing has changed.

        Empty for parameters on several devices, of several types, in subclasses of Parameter or
        without state, for options that are tensors, with hooks or a `step` that was replaced, and
        where torch's kernel in this version differs from its optimizer.
        """
        inner, state = self._inner, self._inner.state
        if self._options is None or self._is_changed() or not fast_paths.on["fused step"]:
            return []
        made_of = [*state, *chain.from_iterable(map(dict.values, state.values()))]
        parts = []
        for named, group, lr in zip(groups, inner.param_groups, rates):
            if not isinstance(lr, float) or group["lr"] is not lr:  # a tensor filled with it
                return []
            parameters: list[Tensor] = [*named.values()]
            made_of += [
                *map(group.get, self._options), *group.get("betas", ()), *group["params"],
                *parameters, *map(type, parameters), *map(DTYPE, parameters),
                *map(Tensor.get_device, parameters),
            ]  # fmt: skip
            parts.append(parameters)
        before = self._made_of
        if len(made_of) != len(before) or not all(map(is_, made_of, before)):
            prepared = [*map(self._prepared, inner.param_groups, parts)]
            self._kernels = [] if None in prepared else [*filter(None, prepared)]
            self._made_of = made_of if self._kernels else []
            self._is_on_gpu = parts[0][0].is_cuda
        return self._kernels

    def _is_changed(self) -> bool:
        """Whether the optimizer has hooks, a `step` of its own, or what a GradScaler sets."""
        own = vars(self._inner)
        return (
            own_step(self._inner) is not None
            or own.get("grad_scale") is not None
            or own.get("found_inf") is not None
            or private_torch.has_hooks(self._inner)
        )

    def _prepared(self, group: Any, parameters: list[Tensor]) -> Kernel | None:
        """The kernel by which torch would step exactly these parameters of a group."""
        options = [*map(group.get, OPTIONS[self._kind])]
        is_fused, *others = options[: len(MODES)]
        numbers = {*map(type, options[len(MODES) :]), *map(type, group.get("betas", ()))}
        held = group["params"]
        kinds = {(type(parameter), parameter.dtype, parameter.device) for parameter in parameters}
        is_all = len(held) == len(parameters) and all(map(is_, held, parameters))
        if (
            not is_all or not is_fused or any(others) or not numbers <= PLAIN or len(kinds) != 1
            or (place := kinds.pop())[0] is not nn.Parameter
            or not _agrees(self._kind, tuple(map(bool, options)), *place[1:])
        ):
            return None
        states = [self._inner.state.get(parameter) for parameter in parameters]
        return _kernel(self._kind, self._inner, group, states)


def own_step(inner: object) -> Callable[..., Any] | None:
    """The `step` that the user's code has put on the optimizer itself, over that of its class."""
    step = vars(inner).get("step")
    if step is None or private_torch.is_scheduler_step(step, type(inner)):
        return None
    return step


def set_rate(group: dict[str, Any], lr: float) -> None:
    """Sets the learning rate of a torch optimizer's group, in its tensor if it is one."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr


def _kernel(kind: object, inner: object, group: Any, states: list[Any]) -> Kernel | None:
    """The kernel with a group's options and these states; None if a state lacks a tensor."""
    options = {name: group[name] for name in OPTIONS[kind] if name not in MODES}
    if kind is torch.optim.SGD:
        slots = {"momentum_buffer_list": "momentum_buffer" if group["momentum"] else None}
        options["is_first_step"] = False
    else:
        largest = "max_exp_avg_sq" if group["amsgrad"] else None
        slots = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "max_exp_avg_sqs": largest}
        slots["state_steps"] = "step"
        options["beta1"], options["beta2"] = group["betas"]
    kernel = private_torch.fused_kernel(kind, options.pop("decoupled_weight_decay", False))
    tensors: dict[str, list[Any]] = {
        name: [(state or {}).get(slot) for state in states if slot] for name, slot in slots.items()
    }
    if not {type(tensor) for slot in tensors.values() for tensor in slot} <= {Tensor}:
        return None  # no step yet
    run = partial(kernel, grad_scale=None, **options, **tensors)
    parameters, counters = group["params"], tensors.get("state_steps")

    def step(gradients: list[Tensor], lr: float | Tensor, flag: Tensor | None) -> None:
        if counters and counters[0].is_cpu:
            private_torch.foreach_add_(counters, ONE, alpha=1.0)
        elif counters:
            private_torch.foreach_add_(counters, 1)
        run(parameters, gradients, lr=lr, found_inf=flag)
        if counters and flag is not None:
            private_torch.foreach_add_(counters, [flag] * len(counters), alpha=-1)

    return step


@cache
def _agrees(
    kind: Any, flags: tuple[bool, ...], dtype: torch.dtype, device: torch.device
) -> bool:
    """Whether the second step of a small tensor equals torch's own bit for bit.

    `flags` are the options that are not zero: which numbers they are does not matter.
    """
    if device.type not in ("cpu", "cuda"):
        return False
    options = [*zip(OPTIONS[kind], flags)][len(MODES) :]
    values = torch.linspace(-1, 1, 5).to(device, dtype)
    plain: Any = torch_class.without_dynamo(kind)

    def after_two_steps(by_kernel: bool) -> list[Tensor]:
        twin = nn.Parameter(values.clone())
        optimizer: Any = plain([twin], lr=0.1, fused=True)
        (group,) = optimizer.param_groups
        group.update({n: TRIED[n] * is_set if n in TRIED else is_set for n, is_set in options})
        twin.grad = values.square()
        optimizer.step()
        step: Any = optimizer.step
        if by_kernel:
            kernel: Any = _kernel(kind, optimizer, group, [optimizer.state[twin]])
            step = partial(kernel, [values.square()], 0.1, None)
        step()
        if by_kernel:  # changes nothing
            kernel([values.square()], 0.1, torch.ones((), device=device))
        return [twin, *filter(torch.is_tensor, optimizer.state[twin].values())]

    try:
        return all(map(torch.equal, after_two_steps(False), after_two_steps(True)))
    except (AttributeError, KeyError, TypeError, RuntimeError):
        return False


def _without_momentum(inner: Any) -> list[Tensor]:
    """The parameters that a fused SGD with momentum has to step apart from others of a group."""
    apart: list[Tensor] = []
    for group in inner.param_groups if isinstance(inner, torch.optim.SGD) else ():
        stepped = [parameter for parameter in group["params"] if parameter.grad is not None]
        late = [p for p in stepped if inner.state.get(p, {}).get("momentum_buffer") is None]
        if group["fused"] and group["momentum"] and len(late) < len(stepped):
            apart += late
    return apart

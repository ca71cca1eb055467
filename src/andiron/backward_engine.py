"""Backward, and the parameters that it reaches, without the layers of Python around them."""

import functools
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from andiron.plain import fast_paths

BACKWARD = Tensor.backward


def run_backward(loss: Tensor) -> None:
    """`loss.backward()` outside autocast: it takes its dtypes from the forward pass.

    A plain scalar on a CPU goes straight to torch's engine, where Tensor.backward takes three
    layers of Python: 15 us of a 300 us step. On other devices it also passes its context to the
    device threads. The 1 that the chain begins with is new each time, as a hook may change it.
    """
    kind = loss.device.type
    is_plain = type(loss) is Tensor and loss.is_cpu and loss.is_floating_point() and not loss.dim()
    is_cast = torch.is_autocast_enabled(kind)
    with torch.autocast(kind, enabled=False) if is_cast else nullcontext():
        if is_plain and _may_run_engine():
            _run_engine(loss)
        else:
            loss.backward()  # type: ignore[no-untyped-call]


def all_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters by name; a shared one may be listed under each of its names."""
    own = type(model).named_parameters is nn.Module.named_parameters
    if own and fast_paths.may_take("named parameters"):
        return _named_parameters(model, "", {})
    return dict(model.named_parameters())


def _may_run_engine() -> bool:
    """Whether nothing but autograd is to see the call: no transform, mode or other backward."""
    return (
        Tensor.backward is BACKWARD
        and _engine_agrees()
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._is_torch_function_mode_enabled()
        and fast_paths.may_take("engine")
    )


def _run_engine(loss: Tensor) -> None:
    engine = torch.autograd.Variable._execution_engine
    engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), True, True)


@functools.cache
def _engine_agrees() -> bool:
    """Whether torch's engine, called like this, gives the same gradient as `loss.backward()`.

    Another version of torch may need another call: it is tried once, on three numbers.
    """
    ours, theirs = (torch.tensor([0.5, -2.0, 3.0], requires_grad=True) for _ in range(2))
    with torch.enable_grad():
        loss, public = ours.exp().sum(), theirs.exp().sum()
    public.backward()  # type: ignore[no-untyped-call]
    try:
        torch._C._are_functorch_transforms_active()
        torch._C._is_torch_function_mode_enabled()
        _run_engine(loss)
    except (AttributeError, TypeError, RuntimeError):
        return False
    own, expected = ours.grad, theirs.grad
    return own is not None and expected is not None and torch.equal(own, expected)


def _named_parameters(
    module: nn.Module, prefix: str, parameters: dict[str, nn.Parameter]
) -> dict[str, nn.Parameter]:
    """`dict(module.named_parameters())` with all names of shared parameters, six times faster.

    Torch's generators take 40 us of a 300 us step of a small MLP. The gradient of a shared
    parameter is listed under its first name only.
    """
    for name, parameter in module._parameters.items():
        if parameter is not None:
            parameters[prefix + name] = parameter
    for name, child in module._modules.items():
        if child is not None:
            _named_parameters(child, f"{prefix}{name}.", parameters)
    return parameters

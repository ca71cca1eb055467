"""Every private name of torch that training uses, with the reason; other modules have none.

An operation on a list of tensors has the bits of a loop over the public operation: for a small
network that loop costs more than the arithmetic.
"""

from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import optimizer as hooks

foreach_add = torch._foreach_add
foreach_add_ = torch._foreach_add_
foreach_addcdiv_ = torch._foreach_addcdiv_
foreach_addcmul_ = torch._foreach_addcmul_
foreach_copy_ = torch._foreach_copy_
foreach_div = torch._foreach_div
foreach_div_ = torch._foreach_div_
foreach_lerp_ = torch._foreach_lerp_
foreach_mul = torch._foreach_mul
foreach_mul_ = torch._foreach_mul_
foreach_neg = torch._foreach_neg
foreach_norm = torch._foreach_norm
foreach_sqrt = torch._foreach_sqrt
foreach_sub = torch._foreach_sub
# multiplies tensors, and sets a flag if any has inf or NaN, in one pass: no public operation does
unscale_and_check_ = torch._amp_foreach_non_finite_check_and_unscale_
# the number of writes into a tensor: nothing public shows that its values changed
version: Any = attrgetter("_version")
base: Any = attrgetter("_base")  # the tensor that a view shows, or None
# of a module: Module.children and its relatives are generators
children: Any = attrgetter("_modules")
buffers: Any = attrgetter("_buffers")
# -1 outside of backward, which recomputes checkpointed layers
backward_id = torch._C._current_graph_task_id
# the classes that torch's norms with running statistics have in common, and users' norms
NormBase = nn.modules.batchnorm._NormBase
InstanceNorm = nn.modules.instancenorm._InstanceNorm

Owned = list[tuple[str, dict[str, nn.Parameter | None]]]


def parameters(model: nn.Module) -> Owned:
    """The prefix and the parameters of each module that has some, in the order of `named_modules`.

    Torch's generators take 40 us of a 300 us step of a small MLP.
    """
    owned: Owned = []
    waiting: list[tuple[str, nn.Module | None]] = [("", model)]
    seen: set[nn.Module | None] = {None}
    while waiting:
        prefix, module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        own = module.__dict__  # past Module.__getattr__
        if own["_parameters"]:
            owned.append((prefix, own["_parameters"]))
        if own["_modules"]:
            for name in reversed(own["_modules"]):
                waiting.append((f"{prefix}{name}.", own["_modules"][name]))
    return owned


def has_stored_buffers(module: nn.Module) -> bool:
    """Whether the module's own buffers are in its `state_dict`, which has its children's too."""
    names = module._buffers.keys() - module._non_persistent_buffers_set
    return any(module._buffers[name] is not None for name in names)


def run_engine(loss: Tensor) -> None:
    """`loss.backward()` without three layers of Python; a hook may change the new 1."""
    engine = torch.autograd.Variable._execution_engine
    engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), True, True)


def is_watched() -> bool:
    """Whether a transform of torch.func or a torch function mode is to see each call."""
    c = torch._C
    return c._are_functorch_transforms_active() or c._is_torch_function_mode_enabled()


def fused_kernel(kind: object, is_decoupled: bool) -> Any:
    """The kernel of torch's fused Adam, AdamW or SGD: `step` takes 36 of 50 us to group tensors."""
    if kind is torch.optim.SGD:
        return torch._fused_sgd_
    return torch._fused_adamw_ if is_decoupled else torch._fused_adam_


def has_hooks(inner: object) -> bool:
    """Whether the user has registered hooks around the steps of a torch optimizer."""
    own = vars(inner)
    return bool(
        own.get("_optimizer_step_pre_hooks")
        or own.get("_optimizer_step_post_hooks")
        or hooks._global_optimizer_pre_hooks
        or hooks._global_optimizer_post_hooks
    )


def is_scheduler_step(step: object, kind: Any) -> bool:
    """Whether a `step` on an optimizer is its class's own, wrapped by torch's schedulers alone."""
    own = getattr(step, "__dict__", {})
    return "_wrapped_by_lr_sched" in own and own.get("__wrapped__") is kind.step


def mark_stepped(optimizer: Any) -> None:
    """Notes a step that did not pass the wrapper by which torch's schedulers see steps."""
    optimizer._opt_called = True

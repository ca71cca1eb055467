"""Activation checkpointing: activations recomputed in backward; less memory, a third more time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils import checkpoint

from andiron import errors
from andiron.plain import patterns


def apply(model: nn.Module, pattern: str) -> list[str]:
    """Recomputes activations of submodules of `model` in backward; returns the submodules' names.

    They are the outermost ones whose name matches the regular expression. Gradients have the same
    bits, dropout included; state names do not change, and buffers (batch norm's statistics) are
    updated once. A module that reads a buffer after changing it (spectral norm) would recompute
    another result: leave it out. The first forward pass imports torch's compiler, for 1.3 s.
    Raises: ValueError if no submodule matches, or the pattern is not a valid regex or takes too
    long.
    Source: Chen et al. 2016, arXiv:1604.06174, section 4.
    """
    modules = {  # a ModuleList has no forward pass that could be recomputed
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if name and type(module).forward is not nn.Module.forward
    }
    chosen: dict[str, nn.Module] = {}
    matches = patterns.searched(pattern, modules)
    for name, module in modules.items():  # an outer module comes before those inside
        is_inside = any(name.startswith(f"{outer}.") for outer in chosen)
        if name in matches and not is_inside and module not in chosen.values():
            chosen[name] = module
    if not chosen:
        hint = errors.nearest(pattern, modules) or f"; available: {', '.join(modules) or 'none'}"
        raise ValueError(
            f"no submodule of {type(model).__name__} has {pattern!r} in its name{hint}"
        )
    for module in chosen.values():
        module.forward = partial(_recomputed, module, module.forward)
    return [*chosen]


def _recomputed(
    module: nn.Module, forward: Callable[..., object], *args: object, **kwargs: Any
) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    if not torch.compiler.is_compiling():  # compiled code updates buffers once, without contexts
        kwargs["context_fn"] = lambda: (nullcontext(), _buffers_restored(module))
    return checkpoint.checkpoint(forward, *args, use_reentrant=False, **kwargs)


@contextmanager
def _buffers_restored(module: nn.Module) -> Iterator[None]:
    """A context that restores updated or replaced buffers on exit."""
    before = [
        (owner, name, buffer, buffer.detach().clone())
        for owner in module.modules()
        for name, buffer in owner.named_buffers(recurse=False)
    ]
    try:
        yield
    finally:
        for owner, name, buffer, values in before:
            # .data: autograd has saved the buffer for backward and must not count this change
            buffer.data.copy_(values)
            setattr(owner, name, buffer)

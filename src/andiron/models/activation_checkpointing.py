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
    """The names of the submodules of `model` whose activations are now recomputed in backward.

    They are the outermost ones in whose name the regular expression is found. Gradients have the
    same bits, dropout included; names of the state stay, and buffers (batch norm's statistics) are
    updated once. A module that reads a buffer after changing it (spectral norm) would recompute
    another result: leave it out. The first forward pass imports torch's compiler, for 1.3 s.
    Raises: ValueError if no submodule matches, or the pattern is not a valid regex or takes too
    long.
    Source: Chen et al. 2016, arXiv:1604.06174, section 4.
    """
    known = {  # a ModuleList has no forward pass that could be recomputed
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if name and type(module).forward is not nn.Module.forward
    }
    chosen: dict[str, nn.Module] = {}
    found = patterns.searched(pattern, known)
    for name, module in known.items():  # an outer module comes before those inside
        is_inside = any(name.startswith(f"{outer}.") for outer in chosen)
        if name in found and not is_inside and module not in chosen.values():
            chosen[name] = module
    if not chosen:
        hint = errors.nearest(pattern, known) or f"; available: {', '.join(known) or 'none'}"
        kind = type(model).__name__
        raise ValueError(f"no submodule of {kind} has {pattern!r} in its name{hint}")
    for module in chosen.values():
        module.forward = partial(_checkpointed, module, module.forward)
    return [*chosen]


def _checkpointed(module: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    if not torch.compiler.is_compiling():  # compiled code updates buffers once, without contexts
        kwargs["context_fn"] = lambda: (nullcontext(), _buffers_restored(module))
    return checkpoint.checkpoint(forward, *args, use_reentrant=False, **kwargs)


@contextmanager
def _buffers_restored(module: nn.Module) -> Iterator[None]:
    """Inside it buffers may be updated or replaced; afterwards they are as before."""
    before = [
        (owner, name, buffer, buffer.detach().clone())
        for owner in module.modules()
        for name, buffer in owner._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for owner, name, buffer, values in before:
            # .data: autograd has saved the buffer for backward and must not count this change
            buffer.data.copy_(values)
            owner._buffers[name] = buffer

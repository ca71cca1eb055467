"""Contexts for a model in evaluation mode, without gradients."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


@contextmanager
def valid(
    model: Model, gradients_off: Callable[[], AbstractContextManager[object]] = torch.inference_mode
) -> Iterator[Model]:
    """`model` in evaluation mode under `torch.inference_mode()`; on exit modes are restored.

    Each module's own mode, as some may not be in training mode (a frozen batch norm). Before
    training, `gradients_off` is torch.no_grad: a tensor that a module caches at its first call
    cannot be used in training if it was created in inference mode. torch's fused encoder layers are
    off: they would zero the padding, and take masks that are added for booleans.
    """
    modes = {module: module.training for module in model.modules()}
    sharded: list[Any] = [module for module in modes if hasattr(module, "unshard")][:1]
    is_fused = torch.backends.mha.get_fastpath_enabled()
    model.eval()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        # weights gathered in inference mode could not train again
        with torch.no_grad() if sharded else gradients_off():
            for network in sharded:
                network.unshard()  # also for methods besides `forward`
            yield model
    finally:
        torch.backends.mha.set_fastpath_enabled(is_fused)
        for network in sharded:
            network.reshard()
        for module, mode in modes.items():
            module.training = mode


def uncompiled() -> AbstractContextManager[Any]:
    """A context in which compiled networks run eagerly, so that hooks are called."""
    is_used = "torch._dynamo" in sys.modules  # importing it takes seconds
    return torch.compiler.set_stance("force_eager") if is_used else nullcontext()

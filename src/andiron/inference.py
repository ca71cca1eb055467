"""A model in evaluation mode, without gradients, for as long as a `with` lasts."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


@contextmanager
def valid(
    model: Model, gradients_off: Callable[[], AbstractContextManager[Any]] = torch.inference_mode
) -> Iterator[Model]:
    """`model` in evaluation mode under `torch.inference_mode()`; on exit modes are restored.

    Each one's own, because a model in training may hold parts that are not (a frozen batch norm).
    Before training, `gradients_off` is torch.no_grad: a tensor that a module makes at its first
    call and keeps cannot be used in training if it was made in inference mode.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with gradients_off():
            yield model
    finally:
        for module, mode in modes.items():
            module.training = mode


def uncompiled() -> AbstractContextManager[Any]:
    """Within it, networks of torch.compile run as they are written, so that hooks see them."""
    is_used = "torch._dynamo" in sys.modules  # importing it takes seconds
    return torch.compiler.set_stance("force_eager") if is_used else nullcontext()

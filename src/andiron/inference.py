"""A model in evaluation mode, without gradients, for as long as a `with` lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


@contextmanager
def valid(model: Model) -> Iterator[Model]:
    """`model` in evaluation mode under `torch.inference_mode()`; on exit modes are restored.

    Each one's own, because a model in training may hold parts that are not (a frozen batch norm).
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield model
    finally:
        for module, mode in modes.items():
            module.training = mode

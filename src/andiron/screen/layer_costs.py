"""The output and cost of each layer of a model for one batch, measured on a forward pass.

>>> network = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
>>> for layer in layers(network, lambda: network(torch.zeros(2, 3))):
...     print(layer)
Layer(name='0', kind='Linear', shape=[2, 5], parameters=20, operations=60, num_bytes=40)
Layer(name='1', kind='ReLU', shape=[2, 5], parameters=0, operations=0, num_bytes=40)
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import nn

from andiron.data.dataset import tensors_in
from andiron.protocols import Layer


def layers(model: nn.Module, forward: Callable[[], Any]) -> list[Layer]:
    """The layers that `forward` calls, in order of their first call."""
    from torch.utils.flop_counter import FlopCounterMode  # imports triton, which takes 0.1 s

    by_name: dict[str, Layer] = {}
    started: list[int] = []  # of each open call, the operations before it
    inner: list[int] = [0]  # and the operations of the modules inside it
    with FlopCounterMode(display=False) as counter, ExitStack() as hooks, torch.no_grad():

        def enter(name: str, module: nn.Module, inputs: Any) -> None:
            by_name.setdefault(name, Layer(name, type(module).__name__))
            started.append(counter.get_total_flops())
            inner.append(0)

        def leave(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
            operations, layer = counter.get_total_flops() - started.pop(), by_name[name]
            layer.operations += operations - inner.pop()
            inner[-1] += operations
            if (tensor := next(tensors_in(output), None)) is not None:
                layer.shape, layer.num_bytes = list(tensor.shape), tensor.nbytes
            layer.parameters = sum(each.numel() for each in module.parameters(recurse=False))

        for name, module in model.named_modules():
            if name:
                hooks.callback(module.register_forward_pre_hook(partial(enter, name)).remove)
                hooks.callback(module.register_forward_hook(partial(leave, name)).remove)
        forward()
    leaves = {name for name, module in model.named_modules() if not list(module.children())}
    return [
        layer
        for name, layer in by_name.items()
        if name in leaves or layer.parameters or layer.operations
    ]

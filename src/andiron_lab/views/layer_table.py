"""The layers of a model as a table: their outputs and costs, measured on a forward pass.

>>> network = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
>>> for layer in layers(network, lambda: network(torch.zeros(2, 3))):
...     print(layer)
Layer(name='0', kind='Linear', shape=[2, 5], parameters=20, operations=60, num_bytes=40)
Layer(name='1', kind='ReLU', shape=[2, 5], parameters=0, operations=0, num_bytes=40)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from rich.table import Column, Table
from rich.text import Text
from torch import Tensor, nn

from andiron.data.structures import tensors_in
from andiron.plain import memory, readable

MOST_SHOWN = 60
UNITS = ("", "k", "M", "G", "T")


@dataclass
class Layer:
    """A module that computes something itself: its output, parameters and cost.

    `operations` are multiplications and additions of matrix products and convolutions, by torch's
    count; `num_bytes` is the size of its output.
    """

    name: str
    kind: str
    shape: list[int] = field(default_factory=list)
    parameters: int = 0
    operations: int = 0
    num_bytes: int = 0

    def count(self, operations: int, parameters: int, output: Tensor | None) -> None:
        """Counts a call, of which `output` is the first tensor."""
        self.operations += operations
        self.parameters = parameters
        if output is not None:
            self.shape, self.num_bytes = list(output.shape), output.nbytes


def layers(model: nn.Module, forward: Callable[[], object]) -> list[Layer]:
    """The layers that `forward` calls, in order of their first call."""
    from torch.utils.flop_counter import FlopCounterMode  # imports triton, which takes 0.1 s

    by_name: dict[str, Layer] = {}
    started: list[int] = []  # of each open call, the operations before it
    inner: list[int] = [0]  # and the operations of the modules inside it
    with FlopCounterMode(display=False) as counter, torch.no_grad():

        def enter(name: str, module: nn.Module, inputs: object) -> None:
            by_name.setdefault(name, Layer(name, type(module).__name__))
            started.append(counter.get_total_flops())
            inner.append(0)

        def leave(name: str, module: nn.Module, inputs: object, output: object) -> None:
            operations = counter.get_total_flops() - started.pop()
            is_whole = isinstance(module, nn.MultiheadAttention)  # it does not call its out_proj
            parameters = sum(own.numel() for own in module.parameters(recurse=is_whole))
            first = next(tensors_in(output), None)
            by_name[name].count(operations - inner.pop(), parameters, first)
            inner[-1] += operations

        with _hooked(model, enter, leave):
            forward()
    leaves = {name for name, module in model.named_modules() if not list(module.children())}
    return [
        layer
        for name, layer in by_name.items()
        if name in leaves or layer.parameters or layer.operations
    ]


@contextmanager
def _hooked(
    model: nn.Module, enter: Callable[..., None], leave: Callable[..., None]
) -> Iterator[None]:
    """A context in which every call of an inner module passes its name to `enter` and `leave`."""
    fast_path = torch.backends.mha.get_fastpath_enabled()  # a transformer's calls no module inside
    with ExitStack() as hooks:
        hooks.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        torch.backends.mha.set_fastpath_enabled(False)
        for name, module in model.named_modules():
            if name:
                hooks.callback(module.register_forward_pre_hook(partial(enter, name)).remove)
                hooks.callback(module.register_forward_hook(partial(leave, name)).remove)
        yield


def layer_table(layers: Sequence[Layer], title: str) -> Table:
    """A row for each layer, or the first ones and the last of many; and their sum."""
    numbers = [Column(name, justify="right") for name in ("parameters", "operations", "memory")]
    table = Table(Column("layer", overflow="fold"), "output", *numbers, title=title)
    rows = list(layers)
    if len(layers) > MOST_SHOWN:
        rows = [*layers[: MOST_SHOWN - 1], layers[-1]]
    for layer in rows:
        if layer is layers[-1] and len(rows) < len(layers):
            table.add_row(f"... {len(layers) - len(rows):,} more ...")
        name = Text(readable.printable(f"{layer.name.removeprefix('network.')} {layer.kind}"))
        shape = "x".join(map(str, layer.shape))
        table.add_row(name, shape, *_costs([layer]))
    table.add_section()
    table.add_row("in all", "", *_costs(layers))
    return table


def in_units(number: float) -> str:
    """A number in the largest unit not above it.

    >>> in_units(512), in_units(21_500_000)
    ('512', '21.5 M')
    """
    unit, *larger = UNITS
    while number >= 1000 and larger:
        number /= 1000
        unit, *larger = larger
    return f"{number:,.1f} {unit}" if unit else f"{number:,.0f}"


def _costs(layers: Sequence[Layer]) -> tuple[str, str, str]:
    """The parameters, operations and memory of the layers together."""
    parameters = sum(layer.parameters for layer in layers)
    operations = sum(layer.operations for layer in layers)
    num_bytes = sum(layer.num_bytes for layer in layers)
    return f"{parameters:,}", in_units(operations), memory.in_words(num_bytes)

"""What a model computes for one batch: its operations, each inside the modules that call it.

>>> import torch
>>> network = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
>>> for each in operations(network, network, torch.zeros(2, 3)):
...     print(each.name, each.inputs, each.shapes)
batch [] [[2, 3]]
Linear[0]/linear ['batch'] [[2, 5]]
ReLU[1]/relu ['Linear[0]/linear'] [[2, 5]]
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from andiron import inference
from andiron.data.dataset import tensors_in
from andiron.protocols import Operation


def operations(model: nn.Module, forward: Callable[[Any], Any], batch: Any) -> list[Operation]:
    """The operations of `forward(batch)` in order, first the tensors of the batch.

    Functions of torch count whole, such as `multi_head_attention_forward`. torch.jit.trace is
    deprecated, and a program of torch.export needs a network without decisions on values.
    """
    recorder = _Recorder(model)
    parts = batch._asdict() if hasattr(batch, "_asdict") else {"batch": batch}
    for name, part in parts.items():
        for tensor in tensors_in(part):
            recorder.add(name, "input", [], [tensor])
    with ExitStack() as at_end:
        at_end.enter_context(inference.uncompiled())
        at_end.callback(hooks.register_module_forward_pre_hook(recorder.enter).remove)
        at_end.callback(hooks.register_module_forward_hook(recorder.leave).remove)
        at_end.enter_context(recorder)
        forward(batch)
    return recorder.found


class _Recorder(TorchFunctionMode):
    """Records every function of torch that returns tensors."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.found: list[Operation] = []
        self._names = {module: name for name, module in model.named_modules()}
        # the task and its network are no boxes around all others
        self._outermost = model, getattr(model, "network", model)
        self._weights = {id(each): name for name, each in model.named_parameters()}
        self._scopes = [("", "")]  # of the modules under way: name, and place in the graph
        self._sources: dict[int, str] = {}  # by id of a tensor, the operation that gave it last
        self._alive: list[Tensor] = []  # an id stays a tensor's own as long as it lives
        self._numbers: Counter[str] = Counter()

    def enter(self, module: nn.Module, inputs: Any) -> None:
        outer, place = self._scopes[-1]
        name = self._names.get(module, "")
        if module not in self._outermost:
            label = name.removeprefix(f"{outer}.") if outer else name
            place = f"{place}{type(module).__name__}[{label}]/"
        self._scopes.append((name, place))

    def leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._scopes.pop()

    def add(
        self, kind: str, what: str, inputs: list[str], outputs: list[Tensor], weights: str = ""
    ) -> None:
        place = f"{self._scopes[-1][1]}{kind}"
        number = self._numbers[place]
        self._numbers[place] += 1
        name = f"{place}_{number}" if number else place
        shapes = [[*each.shape] for each in outputs]
        self.found.append(Operation(name, what, inputs, shapes, weights))
        self._sources |= {id(each): name for each in outputs}
        self._alive += outputs

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = [*tensors_in([*args, *(kwargs or {}).values()])]
        output = function(*args, **(kwargs or {}))
        if made := [*tensors_in(output)]:
            sources = [self._sources[id(each)] for each in given if id(each) in self._sources]
            kind = _name(function)
            self.add(kind, kind, [*dict.fromkeys(sources)], made, self._shown_weights(given))
        return output

    def _shown_weights(self, given: Iterable[Tensor]) -> str:
        names = ((self._weights.get(id(each)), each) for each in given)
        return ", ".join(f"{name} {[*each.shape]}" for name, each in names if name)


def _name(function: Any) -> str:
    """linear, add, getitem; of a property, such as Tensor.T, its own."""
    is_property = function.__name__ == "__get__"
    name: str = (function.__self__ if is_property else function).__name__
    return name.strip("_")

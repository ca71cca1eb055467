"""The graph of a model for one batch: its operations, each inside the modules that call it.

>>> import torch
>>> network = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
>>> for operation in operations(network, network, torch.zeros(2, 3)):
...     print(operation.name, operation.inputs, operation.shapes)
batch [] [[2, 3]]
Linear[0]/linear ['batch'] [[2, 5]]
ReLU[1]/relu ['Linear[0]/linear'] [[2, 5]]
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from andiron import inference
from andiron.data.structures import tensors_in
from andiron.protocols import Operation, network_of


def operations(
    model: nn.Module, forward: Callable[[Any], object], batch: object
) -> list[Operation]:
    """The operations of `forward(batch)` in order, first the tensors of the batch.

    A composite torch function, such as `multi_head_attention_forward`, is one operation.
    torch.jit.trace is deprecated, and torch.export refuses control flow that depends on values.
    """
    recorder = _Recorder(model)
    parts = batch._asdict() if hasattr(batch, "_asdict") else {"batch": batch}
    for name, part in parts.items():
        for tensor in tensors_in(part):
            recorder.add(name, "input", [], [tensor])
    entering = hooks.register_module_forward_pre_hook(recorder.enter)
    with entering, hooks.register_module_forward_hook(recorder.leave), inference.uncompiled():
        with recorder:
            forward(batch)
    return recorder.operations


class _Recorder(TorchFunctionMode):
    """Records every function of torch that returns tensors."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.operations: list[Operation] = []
        self._names = {module: name for name, module in model.named_modules()}
        # the task and its network get no box of their own
        self._outermost = model, network_of(model)
        self._weights = {id(parameter): name for name, parameter in model.named_parameters()}
        self._scopes = [("", "")]  # of the modules being called: name, and place in the graph
        self._sources: dict[int, str] = {}  # by id of a tensor, the operation that returned it last
        self._alive: list[Tensor] = []  # keeps ids unique
        self._numbers: Counter[str] = Counter()

    def enter(self, module: nn.Module, inputs: object) -> None:
        outer, place = self._scopes[-1]
        name = self._names.get(module, "")
        if module not in self._outermost:
            label = name.removeprefix(f"{outer}.") if outer else name
            place = f"{place}{type(module).__name__}[{label}]/"
        self._scopes.append((name, place))

    def leave(self, module: nn.Module, inputs: object, output: object) -> None:
        self._scopes.pop()

    def add(
        self, kind: str, what: str, inputs: list[str], outputs: list[Tensor], weights: str = ""
    ) -> None:
        place = f"{self._scopes[-1][1]}{kind}"
        number = self._numbers[place]
        self._numbers[place] += 1
        name = f"{place}_{number}" if number else place
        shapes = [[*tensor.shape] for tensor in outputs]
        self.operations.append(Operation(name, what, inputs, shapes, weights))
        self._sources |= {id(tensor): name for tensor in outputs}
        self._alive += outputs

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        tensors = [*tensors_in([*args, *(kwargs or {}).values()])]
        output = function(*args, **(kwargs or {}))
        if results := [*tensors_in(output)]:
            keys = {id(tensor): tensor for tensor in tensors}
            sources = dict.fromkeys(self._sources[key] for key in keys if key in self._sources)
            weights = (
                f"{self._weights[key]} {[*tensor.shape]}"
                for key, tensor in keys.items()
                if key in self._weights
            )
            kind = _name(function)
            self.add(kind, kind, [*sources], results, ", ".join(weights))
        return output


def _name(function: Any) -> str:
    """The function's name, such as linear or add; a property's own, such as T."""
    is_property = function.__name__ == "__get__"
    name: str = (function.__self__ if is_property else function).__name__
    return name.strip("_")

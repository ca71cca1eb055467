"""What an update does to each group of parameters, seen at a log point."""

from collections.abc import Mapping

import torch
from torch import Tensor

from andiron import gradients
from andiron.gradients import Gradients
from andiron.optim import GroupedOptimizer
from andiron.protocols import Values


class Watch:
    """Taken before an update with its gradients, read after it; between the two it holds a copy of the weights.

    An optimizer may write on the gradients it is given: what is told of them is taken before.
    """

    def __init__(self, optimizer: GroupedOptimizer, found: Gradients, groups: list[str], *, histograms: bool = False):
        owned = {name: optimizer.groups[name].parameters for name in groups}
        self._parameters = {name: {key: tensor for key, tensor in named.items() if key in found} for name, named in owned.items()}
        self._before = {name: _copies(tensors) for name, tensors in self._parameters.items()}
        self._norms = {
            name: gradients.global_norm({key: found[key] for key in named}) for name, named in self._parameters.items() if named
        }
        self._gradients = _copies(found) if histograms else {}

    def readings(self) -> Values:
        """`grad_norm/<group>`, before any clipping, and `update_ratio/<group>`: ||w' - w|| / ||w||, w' after the update."""
        named: dict[str, Tensor] = {}
        for name, norm in self._norms.items():
            before = self._before[name]
            moved = _copies(self._parameters[name])
            torch._foreach_sub_(list(moved.values()), list(before.values()))
            whole = gradients.global_norm(before).clamp(min=1e-12)  # weights of zeros have a ratio all the same
            named[f"grad_norm/{name}"] = norm
            named[f"update_ratio/{name}"] = gradients.global_norm(moved) / whole
        return dict(zip(named, torch.stack([value.float() for value in named.values()]).tolist(), strict=True)) if named else {}

    def histograms(self) -> dict[str, Tensor]:
        """The weights after the update and the gradients before any clipping, by `weights/` and `gradients/` and name."""
        weights = {f"weights/{key}": tensor.detach() for named in self._parameters.values() for key, tensor in named.items()}
        return weights | {f"gradients/{key}": tensor for key, tensor in self._gradients.items()}


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}

"""Gradient norms and update ratios of each parameter group, measured around one update."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from andiron.gradients import Gradients
from andiron.optim import GroupedOptimizer
from andiron.protocols import Values

SMALLEST = 1e-12  # weights of zeros have a ratio all the same


class GroupStatistics:
    """Made before an update with its gradients, read after it; holds a copy of the weights between.

    An optimizer may overwrite the gradients it is given, so their norms are computed at once. Each
    operation takes the tensors of all groups together: for a small network the number of operations
    is what costs.
    """

    def __init__(
        self,
        optimizer: GroupedOptimizer,
        gradients: Gradients,
        groups: Sequence[str],
        *,
        histograms: bool = False,
    ):
        names = {
            group: [name for name in optimizer.groups[group].parameters if name in gradients]
            for group in groups
        }
        self._names = {group: members for group, members in names.items() if members}
        every = [name for members in self._names.values() for name in members]
        self._parameters: dict[str, Tensor] = {name: optimizer.parameters[name] for name in every}
        self._has_histograms = histograms
        with torch.no_grad():
            self._negated = torch._foreach_neg([*self._parameters.values()]) if every else ()
            both = [*(gradients[name] for name in every), *self._negated]
            self._norms = torch._foreach_norm(both) if every else ()
        self._gradients = {name: gradients[name].clone() for name in every} if histograms else {}

    def readings(self) -> Values:
        """`grad_norm/<group>` before clipping, `update_ratio/<group>` = ||w' - w|| / ||w||."""
        if not self._names:
            return {}
        with torch.no_grad():
            moved = torch._foreach_add(self._negated, [*self._parameters.values()])
            norms = iter(torch.stack([*self._norms, *torch._foreach_norm(moved)]).tolist())
        gradients, weights, updates = ([*self._joint(norms)] for _ in range(3))
        ratios = [
            update / max(weight, SMALLEST) for update, weight in zip(updates, weights, strict=True)
        ]
        named = {f"grad_norm/{group}": n for group, n in zip(self._names, gradients, strict=True)}
        return named | {
            f"update_ratio/{group}": ratio for group, ratio in zip(self._names, ratios, strict=True)
        }

    def _joint(self, norms: Iterator[float]) -> Iterator[float]:
        """The norm of each group, from the norms of its tensors, which come next in `norms`."""
        for members in self._names.values():
            yield math.hypot(*(next(norms) for _ in members))

    def histograms(self) -> dict[str, Tensor]:
        """Weights after the update, gradients before clipping: `weights/...`, `gradients/...`."""
        if not self._has_histograms:
            return {}
        weights = {f"weights/{name}": tensor.detach() for name, tensor in self._parameters.items()}
        return weights | {f"gradients/{name}": tensor for name, tensor in self._gradients.items()}

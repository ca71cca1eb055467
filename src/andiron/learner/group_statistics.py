"""What an update does to each group of parameters, seen at a log point."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from andiron.gradients import Gradients
from andiron.optim import GroupedOptimizer
from andiron.protocols import Values

SMALLEST = 1e-12  # weights of zeros have a ratio all the same


class Watch:
    """Taken before an update with its gradients, read after it; between the two it holds a copy of the weights.

    An optimizer may write on the gradients it is given: what is told of them is taken before. All tensors of all groups
    go through each operation together: for a small network it is the number of operations that costs.
    """

    def __init__(
        self,
        optimizer: GroupedOptimizer,
        found: Gradients,
        groups: list[str],
        *,
        histograms: bool = False,
    ):
        owned = {
            group: [name for name in optimizer.groups[group].parameters if name in found]
            for group in groups
        }
        self._owned = {group: names for group, names in owned.items() if names}
        names = [name for members in self._owned.values() for name in members]
        self._parameters: dict[str, Tensor] = {name: optimizer.parameters[name] for name in names}
        with torch.no_grad():
            self._negated = torch._foreach_neg([*self._parameters.values()]) if names else ()
            self._norms = (
                torch._foreach_norm([*(found[name] for name in names), *self._negated])
                if names
                else ()
            )
        self._gradients = {name: found[name].clone() for name in names} if histograms else {}

    def readings(self) -> Values:
        """`grad_norm/<group>`, before any clipping, and `update_ratio/<group>`: ||w' - w|| / ||w||, w' after the update."""
        if not self._owned:
            return {}
        with torch.no_grad():
            moved = torch._foreach_add(self._negated, [*self._parameters.values()])
            norms = iter(torch.stack([*self._norms, *torch._foreach_norm(moved)]).tolist())
        gradients, weights, updates = ([*self._joint(norms)] for _ in range(3))
        ratios = [
            update / max(weight, SMALLEST) for update, weight in zip(updates, weights, strict=True)
        ]
        named = {
            f"grad_norm/{group}": norm for group, norm in zip(self._owned, gradients, strict=True)
        }
        return named | {
            f"update_ratio/{group}": ratio for group, ratio in zip(self._owned, ratios, strict=True)
        }

    def _joint(self, norms: Iterator[float]) -> Iterator[float]:
        """The norm of each group, from the norms of its tensors that come next."""
        for members in self._owned.values():
            yield math.hypot(*(next(norms) for _ in members))

    def histograms(self) -> dict[str, Tensor]:
        """The weights after the update and the gradients before any clipping, by `weights/` and `gradients/` and name."""
        weights = {f"weights/{name}": tensor.detach() for name, tensor in self._parameters.items()}
        return weights | {f"gradients/{name}": tensor for name, tensor in self._gradients.items()}

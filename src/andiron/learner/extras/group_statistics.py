"""Gradient norms and update ratios of each parameter group, measured around one update."""

import math
from collections.abc import Collection, Iterable, Mapping
from itertools import islice

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.gradients import Gradients, norms
from andiron.optim.grouped import GroupedOptimizer
from andiron.plain import patterns, private_torch
from andiron.protocols import Values

SMALLEST = 1e-12  # zero weights have a ratio too


class GroupStatistics:
    """Created before an update with its gradients, read after it; holds a copy of the weights.

    An optimizer may overwrite the gradients it is given, so their norms are computed at once. Each
    operation takes the tensors of all groups together: for a small network the number of operations
    is what costs.
    Raises: OwnershipError if a parameter that is stepped was replaced in the model.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: GroupedOptimizer,
        gradients: Gradients,
        groups: Iterable[str],
        histograms: Collection[str],
    ):
        _check_current(model, optimizer.parameters)
        self._parameters: dict[str, Tensor] = {}
        self._sizes: dict[str, int] = {}  # number of tensors of each group
        for group in groups:
            owned = optimizer.groups[group].parameters
            updated = {name: tensor for name, tensor in owned.items() if name in gradients}
            self._parameters |= updated
            self._sizes |= {group: len(updated)} if updated else {}
        selected = {name: gradients[name] for name in self._parameters}
        self._gradients = {n: tensor.clone() for n, tensor in selected.items() if n in histograms}
        if selected:
            with torch.no_grad():
                self._negated = private_torch.foreach_neg([*self._parameters.values()])
                self._norms = norms([*selected.values(), *self._negated])

    def readings(self) -> Values:
        """`grad_norm/<group>` before clipping, `update_ratio/<group>` = ||w' - w|| / ||w||."""
        if not self._parameters:
            return {}
        with torch.no_grad():
            private_torch.foreach_add_(self._negated, [*self._parameters.values()])  # w' - w
            after = norms([*self._negated])
            values = iter(torch.stack([*self._norms, *after]).tolist())
        gradients, weights, updates = (  # the joint norm of each group
            {group: math.hypot(*islice(values, size)) for group, size in self._sizes.items()}
            for _ in range(3)
        )
        return {f"grad_norm/{group}": norm for group, norm in gradients.items()} | {
            f"update_ratio/{group}": updates[group] / max(norm, SMALLEST)
            for group, norm in weights.items()
        }

    def histograms(self) -> dict[str, Tensor]:
        """Weights after the update, gradients before clipping: `weights/...`, `gradients/...`."""
        weights = {f"weights/{name}": self._parameters[name].detach() for name in self._gradients}
        return weights | {f"gradients/{name}": tensor for name, tensor in self._gradients.items()}


def histogram_names(chosen: bool | str, names: Iterable[str]) -> frozenset[str]:
    """The names of parameters with histograms: all, none, or those that a regex matches.

    Raises: ConfigError if none matches.
    """
    if isinstance(chosen, bool):
        return frozenset(names if chosen else ())
    available = [*names]
    try:
        matches = frozenset(patterns.searched(chosen, available))
    except ValueError as error:
        raise errors.ConfigError(f"histograms={error}") from error
    if not matches:
        hint = errors.nearest(chosen, available) or f"; available: {', '.join(available)}"
        raise errors.ConfigError(f"histograms={chosen}: matches no parameter name{hint}")
    return matches


def _check_current(model: nn.Module, owned: Mapping[str, nn.Parameter]) -> None:
    """Checks that the model still has the parameters that are stepped.

    Raises: OwnershipError naming the first that was replaced.
    """
    seen = set[nn.Parameter]()
    for prefix, own in private_torch.parameters(model):
        for name, tensor in own.items():
            if tensor is None or tensor in seen or not tensor.requires_grad:
                continue
            seen.add(tensor)
            if owned.get(prefix + name, tensor) is not tensor:
                raise errors.OwnershipError(
                    f"parameter {prefix + name!r} is not the tensor that is stepped: it was "
                    "replaced after the optimizer was made; copy values into it (load_state_dict "
                    "without assign=True), or build the learner again"
                )

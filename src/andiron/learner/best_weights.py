"""A copy of a model's weights at the best validation, to come back to."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from andiron.optim import model_weights


class BestWeights:
    """What `model.state_dict()` saved when it was last taken, in tensors that are allocated once.

    They are on `device`, by default each on the model's own. A tensor with two names is kept once.
    """

    def __init__(self, model: nn.Module, device: torch.device | str | None = None):
        entries = model_weights.entries(model)
        copies: dict[int, Tensor] = {}
        for tensor in entries.values():
            if id(tensor) not in copies:
                where = device or tensor.device
                copies[id(tensor)] = torch.empty_like(tensor, device=where, requires_grad=False)
        self._tensors = {name: copies[id(tensor)] for name, tensor in entries.items()}
        self.is_taken = False

    def take(self, model: nn.Module) -> None:
        """Keeps the weights that `model` has now, in place of those kept before.

        Raises: ValueError if its names are not those of the model given at first.
        """
        model_weights.copy(self._checked(model_weights.entries(model)), self._tensors)
        self.is_taken = True

    def restore(self, model: nn.Module) -> None:
        """Puts the kept weights into `model`.

        Raises: RuntimeError if none were taken; ValueError as `take`.
        """
        if not self.is_taken:
            raise RuntimeError("no weights were taken: there are none to restore")
        model_weights.copy(self._tensors, self._checked(model_weights.entries(model)))

    def swapped_in(self, model: nn.Module) -> AbstractContextManager[None]:
        """Within it `model` has the kept weights; afterwards its own, bit for bit."""
        if not self.is_taken:
            raise RuntimeError("no weights were taken: there are none to restore")
        return model_weights.swapped_in(self._tensors, model)

    def state_dict(self) -> dict[str, Tensor]:
        """The kept weights by the names of `model.state_dict()`; empty if none were taken."""
        return dict(self._tensors) if self.is_taken else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continues from what `state_dict` gave.

        Raises: ValueError if it has other names than this model.
        """
        if state:
            model_weights.copy(self._checked(state), self._tensors)
        self.is_taken = bool(state)

    def _checked(self, entries: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        differing = sorted(entries.keys() ^ self._tensors.keys())
        if differing:
            names = ", ".join(map(repr, differing))
            raise ValueError(
                f"not the model whose weights are kept: only one of the two has {names}"
            )
        return entries

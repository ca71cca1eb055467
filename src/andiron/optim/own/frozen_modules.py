"""Frozen means that nothing changes: modules with running statistics stay in evaluation mode."""

from collections.abc import Iterator, Set

from torch import Tensor, nn

from andiron.plain import private_torch


class FrozenModules:
    """The modules of a model that are kept in evaluation mode, because they are frozen."""

    def __init__(self, model: nn.Module):
        self._model = model
        self.held: set[nn.Module] = set()  # in evaluation mode
        self._switched: set[nn.Module] = set()  # those that were in training mode before

    def choose(self, frozen: Set[Tensor]) -> None:
        """Holds the modules whose parameters are all `frozen`; others train again."""
        self.held = {*_stateful(self._model, frozen)} if frozen else set()
        for module in self._switched - self.held:
            module.training = True
        self._switched &= self.held

    def hold(self) -> None:
        """Puts them into evaluation mode, before an update: `model.train()` may have been called.
        """
        for module in self.held:
            if module.training:
                module.training = False
                self._switched.add(module)


def _stateful(
    module: nn.Module, frozen: Set[Tensor], is_inside: bool = False
) -> Iterator[nn.Module]:
    """The modules with buffers in the model's state whose parameters are all frozen.

    A module without parameters belongs to the one around it, which is frozen if it `is_inside`.
    """
    own = {*module.parameters()}
    is_frozen = own <= frozen if own else is_inside
    if is_frozen and private_torch.has_stored_buffers(module):
        yield module
    for child in module.children():
        yield from _stateful(child, frozen, is_frozen)

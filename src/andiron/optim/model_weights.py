"""The tensors that `model.state_dict()` saves, and contexts that change them temporarily."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from andiron.gradients import Gradients, Tensors, global_norm
from andiron.plain import private_torch


def entries(model: nn.Module) -> dict[str, Tensor]:
    """The model's current tensors by name; a forward pass may replace a buffer."""
    return dict(model.state_dict(keep_vars=True))


def copy(source: Tensors, target: Tensors) -> None:
    """Copies the values of `source` into the tensors of these names in `target`."""
    with torch.no_grad():
        for name, tensor in source.items():
            target[name].copy_(tensor)


def differences(saved: Tensors, expected: Tensors) -> Iterator[str]:
    """A line for each tensor that is missing, unknown, or differs in shape or dtype."""
    for name in sorted(saved.keys() ^ expected.keys()):
        yield f"{name!r} is {'missing' if name in expected else 'not known'}"
    for name in sorted(saved.keys() & expected.keys()):
        was, own = (
            f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
            for tensor in (saved[name], expected[name])
        )
        if was != own:
            yield f"{name!r} is {was}, not {own}"


def swapped_in(tensors: Tensors, model: nn.Module) -> ExitStack:
    """A context in which `model` has the values of `tensors`; on exit its own, bit for bit.

    It begins with the call. No generator: one that is collected as garbage would end the context,
    and change the weights of a model whose learner is gone.
    """
    own = entries(model)
    before = {name: own[name].detach().clone() for name in tensors}
    with ExitStack() as stack:
        stack.callback(lambda: copy(before, entries(model)))
        copy(tensors, own)
        return stack.pop_all()


@contextmanager
def perturbed(model: nn.Module, ascent: Gradients, rho: float) -> Iterator[None]:
    """A context with `model` at w + rho * g / ||g||, g = `ascent`; on exit at w, bit for bit.

    The gradients of SAM, sharpness-aware minimisation, are those computed inside, applied at w.
    Source: Foret et al. 2021, arXiv:2010.01412, equation 2 and algorithm 1.
    """
    parameters = dict(model.named_parameters())
    moved: list[Tensor] = [parameters[name] for name in ascent]
    before = [parameter.detach().clone() for parameter in moved]
    # 1e-12: gradients of zeros have no direction
    scale = rho / (global_norm(ascent) + 1e-12)
    with torch.no_grad():
        steps = private_torch.foreach_mul([*ascent.values()], scale)
        private_torch.foreach_add_(moved, [*steps])
    try:
        yield
    finally:
        with torch.no_grad():
            private_torch.foreach_copy_(moved, before)

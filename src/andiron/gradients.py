"""Gradients as values: an ordered mapping from parameter name to tensor, taken off the model."""

from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor, nn


class Gradients(Mapping[str, Tensor]):
    """The gradients of one loss (or a mean of losses) by parameter name, in the order of `model.named_parameters()`.

    A parameter the loss does not reach has no entry, which is not the same as a gradient of zeros: an optimizer
    leaves it and its state alone. Parts are taken out by module or by name; what stays is the remaining gradients.
    """

    def __init__(self, tensors: Mapping[str, Tensor], model: nn.Module):
        self._tensors = dict(tensors)
        self._model = model

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Gradients({', '.join(f'{name}: {list(tensor.shape)}' for name, tensor in self.items())})"

    def remove(self, name: str) -> Tensor | None:
        """The gradient of `name`, which this value then no longer holds; None if it holds none."""
        return self._tensors.pop(name, None)

    def register(self, name: str, gradient: Tensor) -> None:
        """Sets the gradient of `name`."""
        self._tensors[name] = gradient

    def take(self, module: nn.Module) -> "Gradients":
        """The gradients of `module`'s parameters, removed from here.

        Raises: ValueError if `module` is no part of the model these gradients belong to.
        """
        names = {id(parameter): name for name, parameter in self._model.named_parameters()}
        wanted = [names.get(id(parameter)) for parameter in module.parameters()]
        if None in wanted:
            raise ValueError(
                f"{type(module).__name__} is no part of the {type(self._model).__name__} these gradients belong to; "
                "take a submodule of the model that was given to backward"
            )
        return self._taken(name for name in wanted if name in self._tensors)

    def take_names(self, *names: str) -> "Gradients":
        """The gradients of these parameters, removed from here.

        Raises: KeyError naming the first parameter without a gradient, and those with one.
        """
        for name in names:
            if name not in self._tensors:
                raise KeyError(f"no gradient for parameter {name!r}; there are: {', '.join(self._tensors)}")
        return self._taken(dict.fromkeys(names))

    def _taken(self, names: Iterable[str | None]) -> "Gradients":
        return Gradients({name: self._tensors.pop(name) for name in names if name is not None}, self._model)


def backward(loss: Tensor, model: nn.Module) -> Gradients:
    """The gradients of a scalar `loss` with respect to `model`'s parameters; none is left on `parameter.grad`.

    They are moved off `.grad` rather than asked of `torch.autograd.grad`, which bypasses the hooks by which
    DistributedDataParallel averages them.
    """
    loss.backward()  # type: ignore[no-untyped-call]
    tensors = {}
    for name, parameter in _named_parameters(model, "", {}).items():
        if parameter.grad is not None:
            tensors[name] = parameter.grad
            parameter.grad = None
    return Gradients(tensors, model)


def _named_parameters(module: nn.Module, prefix: str, found: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """`dict(module.named_parameters())` but for a shared parameter, which has all its names, in a sixth of the time.

    It runs at every step: on a small MLP torch's generators take 40 us of a 300 us step. A shared parameter's
    gradient is taken under the first name, after which it has none.
    """
    for name, parameter in module._parameters.items():
        if parameter is not None:
            found[prefix + name] = parameter
    for name, child in module._modules.items():
        if child is not None:
            _named_parameters(child, f"{prefix}{name}.", found)
    return found

"""The state that a training step changes, to bring it back; its values, compared to the bit."""

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from andiron import randomness
from andiron.data import structures
from andiron.learner import nonfinite
from andiron.optim.grouped import GroupedOptimizer
from andiron.plain import private_torch
from andiron.protocols import TrainOutput

PLAIN = bool | int | float | str | None


class NoGraphError(Exception):
    """Why a step cannot be a graph."""


class StateBefore:
    """The buffers of a model, other tensors and the global generators, before a step."""

    def __init__(self, model: nn.Module, optimizer: GroupedOptimizer, others: dict[str, Tensor]):
        buffers = [*map(private_torch.buffers, model.modules()), others]
        self._tensors = nonfinite.StateBefore(buffers, optimizer)
        self._generators = [*_generators()]
        self._beside = randomness.global_generator_state()

    def has_drawn_beside(self, device: str) -> bool:
        """Whether Python, NumPy, or torch on a CPU that is not the device has drawn since."""
        is_same = torch.equal(self._generators[0], torch.get_rng_state()) or device == "cpu"
        return not is_same or self._beside != randomness.global_generator_state()

    def restore(self) -> None:
        """Brings the state back."""
        self._tensors.restore()
        randomness.restore_global_generators(self._beside)
        torch.set_rng_state(self._generators[0])
        if len(self._generators) > 1:
            torch.cuda.set_rng_state(self._generators[1])


def _generators() -> Iterator[Tensor]:
    yield torch.get_rng_state()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield torch.cuda.get_rng_state()


def parts_of(value: Any) -> Mapping[Any, Any]:
    """The parts of a batch or an item.

    Raises: NoGraphError for an object whose tensors are unknown.
    """
    if type(value) in structures.PLAIN:
        return dict(enumerate(value))
    if (named := structures.fields(value)) is None:
        raise NoGraphError(f"the tensors of a {type(value).__name__} are unknown")
    return named


def described(value: Any, tensor: Callable[[Tensor], Hashable]) -> Hashable:
    """The types, numbers and texts of a value, and for each tensor what `tensor` returns."""
    if isinstance(value, Tensor):
        return tensor(value)
    if isinstance(value, PLAIN):
        return value
    return type(value), *((name, described(p, tensor)) for name, p in parts_of(value).items())


def bits_of(value: Any) -> Hashable:
    """Equal for values with the same bits in tensors of the same shapes."""
    return described(value, _digest)


def _digest(tensor: Tensor) -> Hashable:
    raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return tensor.shape, tensor.dtype, hashlib.sha256(raw.numpy().data).digest()


def outputs_by_name(model: nn.Module, output: Any) -> dict[str, Hashable]:
    """The bits of all that a step makes, by name; of a validation step it is the item."""
    made, item = dict[str, Any](), output
    if isinstance(output, TrainOutput):
        item = output.item
        made = {"the loss": output.gradients.loss, "the weight": output.weight}
        made |= {f"the gradient of {name!r}": value for name, value in output.gradients.items()}
    parts = structures.fields(item) or {"": item}
    made |= {f"the item's {name}": value for name, value in parts.items()}
    made |= {f"the buffer {name!r}": value for name, value in model.named_buffers()}
    return {name: bits_of(value) for name, value in made.items()}


def first_difference(expected: Mapping[str, object], actual: Mapping[str, object]) -> str | None:
    """The first name whose values differ."""
    names = dict.fromkeys([*expected, *actual])
    return next((name for name in names if expected.get(name) != actual.get(name)), None)

"""The state that a training step changes, to bring it back; its outputs, compared to the bit."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from andiron import randomness
from andiron.data import structures
from andiron.gradients import Detachable
from andiron.learner import nonfinite
from andiron.optim.grouped import GroupedOptimizer
from andiron.plain import private_torch
from andiron.protocols import TrainOutput

PLAIN = bool | int | float | str | None


class StateBefore:
    """The buffers of a model and the global generators, which a step changes."""

    def __init__(self, model: nn.Module, optimizer: GroupedOptimizer):
        buffers = map(private_torch.buffers, model.modules())
        self._buffers = nonfinite.StateBefore(buffers, optimizer)
        self._generators = [*_generators()]
        self._others = randomness.global_generator_state()

    def has_drawn_beside(self, device: str) -> bool:
        """Whether Python, NumPy, or torch on a CPU that is not the device has drawn since."""
        is_same = torch.equal(self._generators[0], torch.get_rng_state()) or device == "cpu"
        return not is_same or self._others != randomness.global_generator_state()

    def restore(self) -> None:
        """Brings the state back."""
        self._buffers.restore()
        randomness.restore_global_generators(self._others)
        torch.set_rng_state(self._generators[0])
        if len(self._generators) > 1:
            torch.cuda.set_rng_state(self._generators[1])


def _generators() -> Iterator[Tensor]:
    yield torch.get_rng_state()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield torch.cuda.get_rng_state()


def outputs_by_name(model: nn.Module, output: Any) -> dict[str, Any]:
    """Copies of all that a step makes, by name; of a validation step it is the item."""
    made, item = dict[str, Any](), output
    if isinstance(output, TrainOutput):
        item = output.item
        made = {"the loss": output.gradients.loss, "the weight": output.weight}
        made |= {f"the gradient of {name!r}": value for name, value in output.gradients.items()}
    parts = vars(item) if isinstance(item, Detachable) else structures.fields(item) or {"": item}
    made |= {f"the item's {name}": value for name, value in parts.items()}
    made |= {f"the buffer {name!r}": value for name, value in model.named_buffers()}
    return {name: structures.mapped(_copied, value) for name, value in made.items()}


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two values have the same bits; NaN equals NaN."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        parts = ([*structures.leaves(value)] for value in (one, other))
        is_same = not isinstance(one, PLAIN) or one == other
        return type(one) is type(other) and is_same and all(map(_are_equal, *parts))
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    bits = [tensor.contiguous().flatten().view(torch.uint8) for tensor in (one, other)]
    return torch.equal(*bits)


def first_difference(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """The first name whose values differ."""
    names = dict.fromkeys([*expected, *actual])
    differing = (n for n in names if not _are_equal(expected.get(n), actual.get(n)))
    return next(differing, None)

"""The state after updates, and every tensor of one update in the order of computation.

Gradients come from the last parameter to the first, as backward reaches them.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from andiron.data import structures
from andiron.learner import Learner
from andiron.learner.update import Updater
from andiron.serialization.safetensors_codec import as_bytes, contiguous
from andiron_lab.ask.instruments import Instrument, Update
from andiron_lab.ask import bit_comparison

Named = Mapping[str, Tensor]
Pairs = Iterable[tuple[str, Tensor]]
LAYER = "output of layer"


class States(Instrument):
    """After each update of these numbers the SHA-256 of the whole state, or the weights.

    Tensors are named by their place in the order, then as they are compared.
    """

    def __init__(self, numbers: range, is_exact: bool | None):
        self.tensors, self._seen = dict[str, Tensor](), Counter[str]()
        self._numbers, self._is_exact = numbers, is_exact

    def keep(self, kind: str, pairs: Pairs) -> None:
        """Copies tensors; the second of a name is counted."""
        for name, tensor in pairs:
            self._seen[name := kind + name] += 1
            count = f", number {self._seen[name]}" * (self._seen[name] > 1)
            self.tensors[f"{len(self.tensors):09d} {name}{count}"] = _plain(tensor).clone()

    def after(self, update: Update) -> None:
        """Keeps the state."""
        if update.number in self._numbers:
            pairs: Pairs = update.learner.model.named_parameters()
            if self._is_exact:
                total = hashlib.sha256()
                for _, tensor in _state(update.learner):
                    total.update(as_bytes(_plain(tensor)))
                pairs = [("", torch.tensor([*total.digest()]))]
            self.keep(f"{update.number} ", pairs)


class Trace(States):
    """Every tensor of an update: state, input, layers, result, gradients, rates, state after it."""

    def before(self, update: Update) -> None:
        """Keeps the state and the input, and watches the layers."""
        self.keep("before the update: ", _state(update.learner))
        for batch in update.batches:
            self.keep("input: ", _tensors(batch))
        for name, module in update.learner.model.named_modules():
            module.register_forward_hook(partial(self._keep_output, name, update.learner.updater))

    def computed(self, update: Update) -> None:
        """Keeps the result of the task, the gradients, and what the step gets."""
        for item in update.items:
            self.keep("result: ", _tensors(item))
        learner, gradients = update.learner, update.gradients
        if gradients is None:
            return
        self.keep("gradient: ", reversed([*gradients.items()]))
        rates = learner.rates.items()
        numbers = ((name, torch.tensor(rate, dtype=torch.float64)) for name, rate in rates)
        self.keep("learning rate of group: ", numbers)
        given = gradients.replaced({name: tensor.clone() for name, tensor in gradients.items()})
        if learner.updater.transform is not None:
            given = learner.updater.transform(given, learner.updates)
        self.keep("clipped or transformed gradient: ", reversed([*given.items()]))

    def after(self, update: Update) -> None:
        """Keeps the state."""
        self.keep("", _state(update.learner))

    def _keep_output(
        self, name: str, updater: Updater, module: object, inputs: object, output: object
    ) -> None:
        if not torch.is_inference_mode_enabled():  # a validation
            number = updater.evaluations
            later = f" in evaluation {number}" * (number > 1)
            pairs = ((f"{name} {part}".strip(), tensor) for part, tensor in _tensors(output))
            self.keep(f"{LAYER}{later}: ", pairs)


def _state(learner: Learner) -> Iterator[tuple[str, Tensor]]:
    """Optimizer state, weights, buffers and averages by name; also buffers that are not saved."""
    parts = {
        "optimizer state": learner.optimizer.state_dict().items(),
        "weight": learner.model.named_parameters(),
        "buffer": learner.model.named_buffers(),
        **{f"average {n}": average.state_dict().items() for n, average in learner.averages.items()},
    }
    return ((f"{kind}: {name}", tensor) for kind, pairs in parts.items() for name, tensor in pairs)


def differences(sides: Sequence[Named], tolerance: float | None) -> list[bit_comparison.Difference]:
    """The differences of two sides, in the order of the first.

    A layer that only one side calls does not count; with a tolerance, neither do tensors whose
    distance is at most that part of the norm of the first.
    """
    one, other = sides
    left = {
        name for name in {*one, *other}
        if (_is_near(one[name], other[name], tolerance) if name in one and name in other
            else name.startswith(LAYER))
    }  # fmt: skip
    kept = [{name: side[name] for name in side if name not in left} for side in sides]
    return [*bit_comparison.value_differences("", kept[0], kept[1])]


def _is_near(one: Tensor, other: Tensor, tolerance: float | None) -> bool:
    if tolerance is None or one.shape != other.shape:
        return False
    a, b = one.double(), other.double()
    return bool((a - b).norm() <= tolerance * a.norm())


def _plain(tensor: Tensor) -> Tensor:
    return contiguous(tensor if tensor.layout == torch.strided else tensor.to_dense())


def _tensors(value: object, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a structure, by the fields it is in."""
    if (parts := structures.fields(value)) is None:
        yield from ((place, tensor) for tensor in structures.tensors_in(value))
    for name, part in (parts or {}).items():
        yield from _tensors(part, f"{place} {name}".strip())

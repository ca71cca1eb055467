"""Averages of the weights over the updates: how much the newest counts, and who keeps the tensors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.ranges import Fraction, Horizon


@runtime_checkable
class Rule(Protocol):
    """How an average changes with the updates."""

    def weight(self, updates: int, count: int) -> float | None:
        """What the weights after `updates` completed updates count in an average of `count` before; None: not at all."""
        ...


@dataclass(frozen=True)
class Ema:
    """a_t = d_t a_{t-1} + (1 - d_t) w_t, with a_0 = w_0 and d_t = decay, or min(decay, (1 + t) / (10 + t)) with warmup.

    Raises: ValueError if decay is not in [0, 1).
    Source: Kingma & Ba 2015, arXiv:1412.6980, section 7.2, there from a_0 = 0 and unbiased by division; the warm-up is
    that of TensorFlow's ExponentialMovingAverage.
    """

    decay: Fraction
    warmup: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise ValueError(
                f"decay={self.decay}: should be at least 0 and less than 1; at 1 nothing would be averaged"
            )

    def weight(self, updates: int, count: int) -> float | None:
        """1 - d_t after t = `updates`."""
        t = updates
        return 1 - (min(self.decay, (1 + t) / (10 + t)) if self.warmup else self.decay)


@dataclass(frozen=True)
class Swa:
    """a = (w_s + w_{s+c} + w_{s+2c} + ...) / n: the mean of the weights after s = start updates and each `every` = c on.

    Raises: ValueError if start or every is less than 1.
    Source: Izmailov et al. 2018, arXiv:1803.05407, algorithm 1.
    """

    start: Horizon
    every: Horizon = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(
                    f"{name}={value}: should be 1 or more; give it as a whole number of updates"
                )

    def weight(self, updates: int, count: int) -> float | None:
        """1 / (n + 1) with n = `count`, at the updates that are averaged."""
        if updates < self.start or (updates - self.start) % self.every:
            return None
        return 1 / (count + 1)


class WeightAverage:
    """The average of a model's weights by `rule`, beside the model; before anything was averaged, its initial weights.

    Parameters and floating-point buffers are averaged, in float32 at least; the statistics of a batch norm among them,
    which are then not those of the averaged weights. Other buffers are the newest, and so is a buffer that is not
    finite to begin with (a mask of -inf). What a model shares under two names is averaged once.
    `count` is how many times weights entered.
    """

    def __init__(self, rule: Rule, model: nn.Module):
        self.rule = rule
        self.count = 0
        entries = _entries(model)
        first: dict[int, str] = {}
        for name, tensor in entries.items():
            first.setdefault(id(tensor), name)
        self._averaged = [name for name in first.values() if _is_averaged(entries[name])]
        self._copied = [name for name in first.values() if name not in {*self._averaged}]
        held = {name: _start(entries[name], name in self._averaged) for name in first.values()}
        self._tensors = {name: held[first[id(tensor)]] for name, tensor in entries.items()}

    def update(self, model: nn.Module, updates: int) -> None:
        """Lets the weights enter that `model` has after `updates` completed updates, if it is their turn."""
        weight = self.rule.weight(updates, self.count)
        if weight is None:
            return
        entries = self._checked(model)
        with torch.no_grad():
            if self._averaged:
                averages = [self._tensors[name] for name in self._averaged]
                newest = [entries[name].to(self._tensors[name].dtype) for name in self._averaged]
                torch._foreach_lerp_(averages, newest, weight)
            for name in self._copied:
                self._tensors[name].copy_(entries[name])
        self.count += 1

    @contextmanager
    def swapped_in(self, model: nn.Module) -> Iterator[None]:
        """Within it `model` has the averaged weights; afterwards its own, bit for bit."""
        entries = self._checked(model)
        kept = {name: entries[name].detach().clone() for name in (*self._averaged, *self._copied)}
        _put({name: self._tensors[name] for name in kept}, model)
        try:
            yield
        finally:
            _put(kept, model)

    def state_dict(self) -> dict[str, Tensor]:
        """The averaged weights under the names of the model's own `state_dict()`, which can load them."""
        return dict(self._tensors)

    def load_state_dict(self, state: Mapping[str, Tensor], count: int) -> None:
        """Continues from saved averages into which weights had entered `count` times.

        Raises: ValueError if they are not of this model's names and shapes; nothing is then loaded.
        """
        if state.keys() != self._tensors.keys():
            raise ValueError(
                f"saved averages are not of this model: {_difference(state, self._tensors)}"
            )
        for name, tensor in state.items():
            if tensor.shape != self._tensors[name].shape:
                shapes = f"{list(tensor.shape)}, in the model {list(self._tensors[name].shape)}"
                raise ValueError(
                    f"saved averages are not of this model: {name!r} has shape {shapes}"
                )
        for name, tensor in state.items():
            self._tensors[name].copy_(tensor)
        self.count = count

    def _checked(self, model: nn.Module) -> dict[str, Tensor]:
        entries = _entries(model)
        if entries.keys() != self._tensors.keys():
            raise ValueError(
                f"not the model that is averaged: {_difference(entries, self._tensors)}"
            )
        return entries


def _entries(model: nn.Module) -> dict[str, Tensor]:
    """What `model.state_dict()` saves: the tensors themselves, looked up anew because a forward may replace a buffer."""
    return dict(model.state_dict(keep_vars=True))


def _is_averaged(tensor: Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    return isinstance(tensor, nn.Parameter) or bool(torch.isfinite(tensor).all())


def _start(tensor: Tensor, is_averaged: bool) -> Tensor:
    dtype = torch.promote_types(tensor.dtype, torch.float32) if is_averaged else tensor.dtype
    return tensor.detach().to(dtype, copy=True)


def _put(tensors: Mapping[str, Tensor], model: nn.Module) -> None:
    entries = _entries(model)
    with torch.no_grad():
        for name, tensor in tensors.items():
            entries[name].copy_(tensor)


def _difference(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """The names that one of the two lacks, in words."""
    missing = [name for name in expected if name not in found]
    unknown = [f"{name!r}{errors.nearest(name, missing)}" for name in found if name not in expected]
    parts = ["it lacks " + ", ".join(map(repr, missing))] if missing else []
    return "; ".join([*parts, *(["it has " + ", ".join(unknown)] if unknown else [])])

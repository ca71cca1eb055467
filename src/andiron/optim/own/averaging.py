"""Averages of the weights over the updates: rules for the weight of each update, and the tensors.

>>> average = WeightAverage(Ema(decay=0.9), model := nn.Linear(2, 1))
>>> average.update(model, updates=1)
>>> with average.swapped_in(model):
...     outputs = model(torch.ones(3, 2))
"""

from __future__ import annotations  # help() shows them as they stand

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from andiron.optim import model_weights
from andiron.plain import private_torch
from andiron.ranges import Fraction, Horizon, checked


@runtime_checkable
class Rule(Protocol):
    """The weight of each update in an average."""

    def weight(self, updates: int, count: int) -> float | None:
        """The model's weight after `updates` in an average of `count`; None to skip."""
        ...


@checked
@dataclass(frozen=True)
class Ema:
    """a_t = d_t a_{t-1} + (1 - d_t) w_t, with a_0 = w_0 and d_t = decay.

    With warmup, d_t = min(decay, (1 + t) / (10 + t)), as in TensorFlow's ExponentialMovingAverage.
    Raises: ValueError if decay is not in [0, 1).
    Source: Kingma & Ba 2015, arXiv:1412.6980, section 7.2, which starts from a_0 = 0 instead and
    divides to correct the bias.
    """

    decay: Fraction
    warmup: bool = False

    def weight(self, updates: int, count: int) -> float | None:
        """1 - d_t after t = `updates`."""
        t = updates
        return 1 - (min(self.decay, (1 + t) / (10 + t)) if self.warmup else self.decay)


@checked
@dataclass(frozen=True)
class Swa:
    """a = (w_s + w_{s+c} + w_{s+2c} + ...) / n, with s = start and c = every updates.

    Raises: ValueError if start or every is less than 1.
    Source: Izmailov et al. 2018, arXiv:1803.05407, algorithm 1.
    """

    start: Horizon
    every: Horizon = 1

    def weight(self, updates: int, count: int) -> float | None:
        """1 / (n + 1) with n = `count`, at averaged updates."""
        if updates < self.start or (updates - self.start) % self.every:
            return None
        return 1 / (count + 1)


class WeightAverage:
    """The average of a model's weights by `rule`; the initial weights until an update is averaged.

    Parameters and floating-point buffers are averaged, in float32 or wider. Batch norm's statistics
    are too, so they are not statistics of the averaged weights. Other buffers, and buffers that
    start non-finite (a mask of -inf), are copied from the newest model. A tensor with two names is
    averaged once. `count` is the number of updates averaged.
    """

    def __init__(self, rule: Rule, model: nn.Module):
        self.rule = rule
        self.count = 0
        own = model_weights.entries(model)
        first: dict[Tensor, str] = {}  # the first name of each tensor
        for name, tensor in own.items():
            first.setdefault(tensor, name)
        self._averaged = {
            name: tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32), copy=True)
            for tensor, name in first.items()
            if _is_averaged(tensor)
        }
        self._copied = {
            name: tensor.detach().clone()
            for tensor, name in first.items()
            if name not in self._averaged
        }
        self._unique = self._averaged | self._copied
        self._tensors = {name: self._unique[first[tensor]] for name, tensor in own.items()}

    def begin(self, model: nn.Module) -> None:
        """Takes the weights before the first update: they may have been loaded since `__init__`."""
        model_weights.copy(self._entries_of(model), self._tensors)

    def update(self, model: nn.Module, updates: int, flag: Tensor | None = None) -> None:
        """Averages the weights after `updates` completed updates, if the rule includes them.

        Only `count` changes if the flag is 1.
        """
        weight = self.rule.weight(updates, self.count)
        if weight is not None:
            self.blend(model, weight, flag)
            self.count += 1

    def blend(self, model: nn.Module, weight: float | Tensor, flag: Tensor | None) -> None:
        """a + weight * (w - a), with w the model's; a keeps its bits if the flag is 1."""
        own, tensors = self._entries_of(model), [*self._unique.values()]
        former = [] if flag is None else [*map(torch.clone, tensors)]
        with torch.no_grad():
            if self._averaged:
                newest = [own[name].to(value.dtype) for name, value in self._averaged.items()]
                weights: Any = weight
                if isinstance(weight, Tensor):
                    weights = [weight.to(new.dtype) for new in newest]
                private_torch.foreach_lerp_(tensors[: len(newest)], newest, weights)
            model_weights.copy({name: own[name] for name in self._copied}, self._copied)
            if flag is not None:
                for tensor, value in zip(tensors, former):
                    torch.where(flag > 0, value, tensor, out=tensor)

    def swapped_in(self, model: nn.Module) -> ExitStack:
        """A context in which `model` has the averaged weights; afterwards its own, bit for bit."""
        self._entries_of(model)
        return model_weights.swapped_in(self._unique, model)

    def state_dict(self) -> dict[str, Tensor]:
        """The averaged weights by the names of `model.state_dict()`, which can load them."""
        return dict(self._tensors)

    def load_state_dict(self, state: Mapping[str, Tensor], count: int) -> None:
        """Continues from saved averages of `count` updates, of any precision.

        Raises: ValueError if names or shapes are not this model's, before anything is loaded.
        """
        problem, own = "saved averages belong to another model", self._tensors
        alike = {name: saved.to(own[name].dtype) if name in own else saved
                 for name, saved in state.items()}  # fmt: skip
        if lines := [*model_weights.differences(alike, own)]:
            raise ValueError(f"{problem}: {'; '.join(lines)}")
        model_weights.copy(alike, own)
        self.count = count

    def _entries_of(self, model: nn.Module) -> dict[str, Tensor]:
        own = model_weights.entries(model)
        if differing := sorted(own.keys() ^ self._tensors.keys()):
            names = ", ".join(map(repr, differing))
            raise ValueError(f"not the model that is averaged: only one of them has {names}")
        return own


def _is_averaged(tensor: Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    return isinstance(tensor, nn.Parameter) or bool(torch.isfinite(tensor).all())

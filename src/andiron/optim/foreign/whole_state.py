"""The state of a class of another package: the tree that its own `state_dict` returns."""

import copy
import inspect
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from andiron.disk import files
from andiron.gradients import Tensors
from andiron.optim.own.flat_state import UNSAVED, Groups
from andiron.plain.plain_values import Named, Plain
from andiron.serialization import state_trees

TREE = "whole:text"  # slot of the first parameter: the tree as JSON, without its tensors
PREFIX = "whole."  # of the slots of its tensors


class WholeState:
    """The state of `inner`, whose groups have the parameters `groups`."""

    def __init__(self, inner: Any, groups: Groups):
        self._inner = inner
        self._names = {parameter: name for group in groups for name, parameter in group.items()}
        self._first = next(iter(self._names.values()))
        # a step may change options in place
        self._initial = [
            {name: copy.deepcopy(value) if isinstance(value, Tensor | list | dict) else value
             for name, value in _options(group).items()}
            for group in inner.param_groups
        ]  # fmt: skip

    def flat(self, rates: Sequence[float] | None) -> dict[str, Tensor]:
        """The state as tensors, with the rates that the class was constructed with.

        Raises: ConfigError naming what no checkpoint can hold.
        """
        tree, tensors = {**self._inner.state_dict()}, dict[str, Tensor]()
        keys, state = self._keys(tree.pop("param_groups", ())), []
        for key, slots in tree.pop("state", {}).items():
            name = self._names.get(keys.get(key), self._first)  # type: ignore[arg-type]
            state.append([key, state_trees.encoded(slots, tensors, name, f"{name}/{PREFIX}")])
        groups = [
            {key: value for key, value in _options(group).items()
             if key not in initial or not _is_same(value, initial[key])}
            for group, initial in zip(self._inner.param_groups, self._initial)
        ]  # fmt: skip
        drawn = {
            name: (
                generator.getstate()
                if isinstance(generator, random.Random)
                else generator.get_state()
            )
            for name, generator in self._generators().items()
        }
        others = {"rates": rates, "groups": groups, "rest": tree, "generators": drawn}
        plain = state_trees.encoded(others, tensors, prefix=f"{self._first}/{PREFIX}")
        text = torch.tensor([*files.as_json({**plain, "state": state})], dtype=torch.uint8)
        return {**tensors, f"{self._first}/{TREE}": text}

    def parsed(self, state: Tensors) -> Plain | None:
        """The tree of a saved state, without its tensors; None for one of an earlier version.

        Raises: ValueError for a damaged one.
        """
        text = state.get(f"{self._first}/{TREE}")
        if text is not None:
            return files.parsed_json(bytes(text.tolist()))
        if any(key.rpartition("/")[2].startswith(PREFIX) for key in state):
            raise ValueError(f"{self._first}/{TREE} is missing")
        return None

    def load(self, plain: Named, tensors: Tensors) -> None:
        """Continues from a saved state, by the class's own `load_state_dict`."""
        inner, device = self._inner, next(iter(self._names)).device
        saved = state_trees.decoded(plain, tensors, device)
        now, state = inner.state_dict().get("param_groups"), dict(saved["state"])
        if now is None:  # a wrapper, whose own tree has no place for either
            inner.load_state_dict(saved["rest"])
            return
        groups = [
            {name: group[name] for name in UNSAVED if name in group} | initial | changed
            for group, initial, changed in zip(now, self._initial, saved["groups"], strict=True)
        ]
        inner.load_state_dict({**saved["rest"], "state": state, "param_groups": groups})
        loads = (type(inner).load_state_dict, torch.optim.Optimizer.load_state_dict)
        if len({*map(inspect.unwrap, loads)}) == 1:
            keys = self._keys(now)
            for key, slots in state.items():  # torch has cast them to the parameter's dtype
                inner.state[keys.get(key, key)] = slots
        for name, generator in self._generators().items():
            put = (
                generator.setstate if isinstance(generator, random.Random) else generator.set_state
            )
            put(saved["generators"][name])

    def _keys(self, groups: Sequence[Named]) -> dict[Any, nn.Parameter]:
        """The parameter of each number in the class's own state dict."""
        numbers = (number for group in groups for number in group["params"])
        held = (parameter for group in self._inner.param_groups for parameter in group["params"])
        return dict(zip(numbers, held))

    def _generators(self) -> Plain:
        """The generators that the class draws from by itself."""
        kinds = (random.Random, torch.Generator)
        return {
            name: variable
            for name, variable in vars(self._inner).items()
            if isinstance(variable, kinds)
        }


def _options(group: Named) -> Plain:
    return {name: value for name, value in group.items() if name not in UNSAVED}


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return one is other or bool(one == other)

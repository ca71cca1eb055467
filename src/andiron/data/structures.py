"""Batches of any structure: mappings, named tuples, dataclasses, lists, objects that move.

>>> batch = {"tokens": torch.ones(3, 7), "boxes": [torch.ones(n, 4) for n in (1, 0, 2)]}
>>> size(batch)
3
>>> mapped(lambda tensor: tensor.shape[0], batch)
{'tokens': 3, 'boxes': [1, 0, 2]}
"""

import copy
import dataclasses
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.plain.plain_values import Named, Plain

PLAIN = list, tuple  # whose parts have places


def fields(value: object) -> Named | None:
    """The parts by name of a mapping, a named tuple or a dataclass; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def part(holder: Any, name: Any) -> Any:
    """The part of this name of a batch, or the attribute of an object; None if it has none."""
    named = fields(holder)
    return getattr(holder, str(name), None) if named is None else named.get(name)


def is_object(value: object) -> bool:
    """Whether the value moves itself by its method `to`, such as a PyG Batch."""
    is_leaf = isinstance(value, Tensor | UserDict)
    return not is_leaf and callable(getattr(type(value), "to", None))


def mapped(change: Callable[[Any], object], value: Any) -> Any:
    """The structure with `change` applied to its tensors and objects that move."""
    if isinstance(value, Tensor) or is_object(value):
        return change(value)
    named = fields(value)
    if named is None:
        is_list = isinstance(value, list | tuple)
        return type(value)(mapped(change, inner) for inner in value) if is_list else value
    return rebuilt(value, {name: mapped(change, inner) for name, inner in named.items()})


def rebuilt(like: Any, named: Plain) -> Any:
    """A mapping, named tuple or dataclass of the type of `like` with these parts."""
    if isinstance(like, tuple):
        return type(like)(**named)
    if not isinstance(like, Mapping):
        return dataclasses.replace(like, **named)
    made: Any = copy.copy(like)
    made.update(named)
    return made


def moved(value: Any, device: torch.device) -> Any:
    """The structure with its tensors and objects on the device."""

    def move(leaf: Any) -> Any:
        return leaf.to(device, **{"non_blocking": True} if isinstance(leaf, Tensor) else {})

    return mapped(move, value)


def leaves(value: object) -> Iterator[Any]:
    """Every tensor and every object that moves in a batch, at any depth."""
    if isinstance(value, Tensor) or is_object(value):
        yield value
    elif (named := fields(value)) is not None:
        yield from leaves([*named.values()])
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)


def tensors_in(value: object) -> Iterator[Tensor]:
    """Every tensor in a batch, at any depth; not those inside objects that move."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, Tensor))


def has_places(value: object) -> bool:
    """Whether samples have two dimensions or more, as masks, pictures and boxes do."""
    is_list = isinstance(value, list)  # with an entry for each sample
    named = None if isinstance(value, Tensor) else fields(value)
    if named is not None:
        return any(map(has_places, named.values()))
    return any(leaf.dim() > (1 if is_list else 2) for leaf in tensors_in(value))


def size(batch: Any) -> int:
    """The number of samples in a batch: the length of its tensors and of the lists in its fields.

    Raises: DataError, naming the fields, if none has a length, or lengths differ.
    """
    named = fields(batch)
    if named is None:
        named = dict(zip(map(str, count()), batch)) if type(batch) in PLAIN else {"": batch}
    lengths = {field: {*_lengths(value)} for field, value in named.items()}
    if len(sizes := set[int]().union(*lengths.values())) == 1:
        return sizes.pop()
    raise errors.DataError(
        f"the number of samples in a batch of type {type(batch).__name__} is unknown (lengths of "
        f"its fields: {', '.join(f'{name} {[*length]}' for name, length in lengths.items())}); "
        "give every field one entry for each sample"
    )


def cut(value: Any, samples: slice, is_field: bool = False) -> Any:
    """These samples of a batch, or of a field; objects that move themselves stay whole."""
    if (named := fields(value)) is not None:
        return rebuilt(value, {name: cut(inner, samples, True) for name, inner in named.items()})
    if type(value) in PLAIN and not is_field:
        return type(value)(cut(inner, samples, True) for inner in value)
    return value[samples] if isinstance(value, Tensor | list | tuple) else value


def size_or_one(batch: object) -> int:
    """The number of samples in a batch; 1 if it is unknown."""
    try:
        return size(batch)
    except errors.DataError:
        return 1


def _lengths(value: object) -> Iterator[int]:
    if isinstance(value, Tensor):
        yield from value.shape[:1]
    elif (named := fields(value)) is not None:
        for inner in named.values():
            yield from _lengths(inner)
    elif isinstance(value, list | tuple):
        yield len(value)
    elif hasattr(value, "num_graphs"):  # of PyG
        yield int(value.num_graphs)

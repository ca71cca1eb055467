"""Gradient transformations: functions of gradients, applied in order before the step.

A transformation is any callable `Gradients -> Gradients`. A parameter named `seed` or
`update` receives the seed of its place in the chain, or the number of completed updates.

>>> import torch
>>> chain = chained([centralise(), clip_global_norm(1.0)], seed=0)
>>> weight = torch.tensor([[1.0, 3.0], [2.0, 2.0]])
>>> chain(Gradients({"weight": weight}, torch.nn.Linear(2, 2)), 0)["weight"].tolist()
[[-0.7071062922477722, 0.7071062922477722], [0.0, 0.0]]
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from andiron import errors, randomness
from andiron.gradients import Gradients, clip_by_global_norm, clip_by_norm, clip_by_value
from andiron.plain import readable
from andiron.ranges import Positive

Transformation = Callable[..., Gradients]
Chain = Callable[[Gradients, int], Gradients]  # gradients and the number of completed updates


def clip_global_norm(max_norm: Positive) -> Transformation:
    """Scales all gradients together, so that their joint L2 norm is at most `max_norm`."""
    return partial(clip_by_global_norm, max_norm=max_norm)


def clip_norm(max_norm: Positive) -> Transformation:
    """Scales each gradient, so that its own L2 norm is at most `max_norm`."""
    return partial(clip_by_norm, max_norm=max_norm)


def clip_value(limit: Positive) -> Transformation:
    """Clamps every element of the gradients to [-limit, limit]."""
    return partial(clip_by_value, limit=limit)


def centralise() -> Transformation:
    """Subtracts the mean over all dimensions but the first from each gradient of rank 2 or more.

    Source: Yong et al. 2020, arXiv:2004.01461, equation 1.
    """

    def subtract_means(gradients: Gradients) -> Gradients:
        return gradients.replaced(
            {
                name: gradient - gradient.mean(dim=[*range(1, gradient.dim())], keepdim=True)
                if gradient.dim() > 1
                else gradient
                for name, gradient in gradients.items()
            }
        )

    return subtract_means


CLIPPINGS = {"global_norm": clip_global_norm, "norm": clip_norm, "value": clip_value}


def from_clip(clip: float | Mapping[Any, float]) -> Transformation:
    """A number clips the global norm; `{norm: x}`, `{value: x}`, `{global_norm: x}` name it.

    Raises: ValueError for another kind, or a limit that is not positive.
    """
    kinds = clip if isinstance(clip, Mapping) else {"global_norm": clip}
    if len(kinds) != 1 or not kinds.keys() <= CLIPPINGS.keys():
        known = ", ".join(CLIPPINGS)
        raise ValueError(f"clip={clip}: should be a number, or one of {known} with its limit")
    ((kind, limit),) = kinds.items()
    if not limit > 0:
        raise ValueError(
            f"clip={clip}: the limit should be greater than 0; leave clip out to have none"
        )
    return CLIPPINGS[kind](limit)


def chained(transforms: Iterable[Transformation], seed: int) -> Chain | None:
    """The transformations in order as one function of (gradients, updates); None if empty.

    Each place in the chain has its own seed, so that two equal ones draw different numbers.
    """
    given = [*transforms]
    links = [
        _link(transform, randomness.derive(seed, "gradient transformation", place))
        for place, transform in enumerate(given)
    ]
    names = [*map(readable.name_of, given)]
    if not links:
        return None

    def transformed(gradients: Gradients, update: int) -> Gradients:
        for name, link in zip(names, links):
            try:
                gradients = link(gradients, update)
            except Exception as error:
                what = f"gradients: {name} cannot change gradients"
                errors.explain(error, what, "leave it out")
                raise
        if not isinstance(gradients, Gradients):
            remedy = "return gradients.replaced({name: tensor})"
            raise errors.MismatchError(f"gradients: the last one gives {gradients!r:.60}; {remedy}")
        return gradients

    return transformed


def _link(transform: Transformation, seed: int) -> Chain:
    """The transformation as a function of (gradients, updates), its signature inspected once."""
    accepted = inspect.signature(transform).parameters
    arguments = {"seed": seed} if "seed" in accepted else {}
    if "update" in accepted:
        return lambda gradients, update: transform(gradients, **arguments, update=update)
    return lambda gradients, update: transform(gradients, **arguments)

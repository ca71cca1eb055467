"""Gradient transformations: functions of gradients, applied in order before the step.

A transformation is any callable `Gradients -> Gradients`. A parameter named `seed` or
`update` receives the seed of its place in the chain, or the number of completed updates.

>>> chain = chained([centralise(), clip_global_norm(1.0)], seed=0)
>>> weight = torch.tensor([[1.0, 3.0], [2.0, 2.0]])
>>> chain(Gradients({"weight": weight}, torch.nn.Linear(2, 2)), 0)["weight"].tolist()
[[-0.7071062922477722, 0.7071062922477722], [0.0, 0.0]]
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch

from andiron import errors, randomness
from andiron.gradients import Gradients, clip_by_global_norm, clip_by_norm, clip_by_value
from andiron.plain import readable
from andiron.ranges import NonNegative, Positive

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


def noise(std: Positive, decay: NonNegative = 0.0) -> Transformation:
    """Adds N(0, sigma_t^2) to every element, sigma_t^2 = std^2 / (1 + t)^decay after t updates.

    The noise of a parameter is a function of (seed, t, its name), independent of other draws. The
    vector of a `padding_idx` stays as it is.
    Source: Neelakantan et al. 2015, arXiv:1511.06807, equation 1 with eta = std^2 (0.01, 0.3 or 1
    there) and gamma = decay (0.55 there).
    """

    def add_noise(gradients: Gradients, seed: int, update: int) -> Gradients:
        sigma = std / (1 + update) ** (decay / 2)
        noisy, padding = {}, _padding(gradients.model)
        for name, gradient in gradients.items():
            generator = torch.Generator(gradient.device)
            generator.manual_seed(randomness.derive(seed, f"gradient noise/{name}", update))
            drawn = torch.empty_like(gradient).normal_(generator=generator)
            if (row := padding.get(name)) is not None:  # a tied layer may train it
                drawn[row] *= gradient[row].any()
            noisy[name] = gradient.add(drawn, alpha=sigma)
        return gradients.replaced(noisy)

    return add_noise


def _padding(model: torch.nn.Module) -> dict[str, int]:
    """The row of `padding_idx` of each embedding's weight, by the name of the parameter."""
    modules = model.named_modules(remove_duplicate=False)
    rows = {f"{name}.weight": getattr(module, "padding_idx", None) for name, module in modules}
    return {name.removeprefix("."): row for name, row in rows.items() if row is not None}


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

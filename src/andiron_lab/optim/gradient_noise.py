"""Noise added to gradients, as a transformation.

>>> from andiron.optim import chained
>>> from andiron.gradients import Gradients
>>> noisy = chained([noise(0.1)], seed=0)
>>> zeros = Gradients({"weight": torch.zeros(2)}, torch.nn.Linear(2, 1))
>>> bool(noisy(zeros, 0)["weight"].any())
True
"""

import torch

from andiron import randomness
from andiron.gradients import Gradients
from andiron.optim.transformations import Transformation
from andiron.ranges import NonNegative, Positive


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

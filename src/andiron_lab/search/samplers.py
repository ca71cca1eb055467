"""Samplers and pruners of optuna by name.

Each trial gets a new sampler, seeded by the study's seed and the trial's number: an interrupted
search continues as it would have.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy
from optuna import exceptions, pruners, samplers

from andiron import errors
from andiron_lab.search.search_options import SearchOptions

PRUNERS = {
    "median": pruners.MedianPruner,
    "percentile": pruners.PercentilePruner,
    "hyperband": pruners.HyperbandPruner,
    "successive_halving": pruners.SuccessiveHalvingPruner,
    "wilcoxon": pruners.WilcoxonPruner,
}


def sampler(options: SearchOptions, number: int) -> samplers.BaseSampler:
    """The sampler for trial `number`.

    Raises: ConfigError for options that it does not accept.
    """
    seed = int(numpy.random.SeedSequence([options.seed, number]).generate_state(1)[0])
    extra = options.sampler_options or {}
    with _option_errors(f"sampler={options.sampler}", "sampler_options", extra):
        if options.sampler == "tpe":
            # running trials count as bad, so that others explore elsewhere
            return samplers.TPESampler(**{"seed": seed, "constant_liar": True} | extra)
        if options.sampler == "random":
            return samplers.RandomSampler(seed=seed, **extra)
        defaults: dict[str, Any] = {
            "independent_sampler": samplers.RandomSampler(seed=seed),
            "warn_independent_sampling": False,
            "seed": options.seed,  # one sequence for the study
            "scramble": True,
        }
        return samplers.QMCSampler(**defaults | extra)


def pruner(options: SearchOptions, num_objectives: int) -> pruners.BasePruner:
    """The pruner; without a choice, one that never prunes.

    Raises: ConfigError for several objectives, or options that it does not accept.
    """
    if options.pruner is None:
        return pruners.NopPruner()
    if num_objectives > 1:
        why = "a trial with several objectives has no single value to be pruned by; leave it out"
        raise errors.ConfigError(f"hydra.sweeper.pruner={options.pruner}: {why}")
    extra = options.pruner_options or {}
    if options.pruner == "percentile":
        extra = {"percentile": 25.0} | extra
    with _option_errors(f"pruner={options.pruner}", "pruner_options", extra):
        return PRUNERS[options.pruner](**extra)


@contextmanager
def _option_errors(chosen: str, option: str, extra: Mapping[str, object]) -> Iterator[None]:
    """Raises: ConfigError naming the `option` whose values `extra` optuna does not accept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ExperimentalWarning)
        try:
            yield
        except (TypeError, ValueError) as error:
            why = f"does not fit hydra.sweeper.{chosen}: {error}"
            raise errors.ConfigError(f"hydra.sweeper.{option}={dict(extra)}: {why}") from error

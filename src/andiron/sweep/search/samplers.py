"""Samplers and pruners of optuna by name.

A sampler is made anew for each trial, with a seed that follows from the study's and the trial's
number: a search that was cut off continues as it would have.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from optuna import create_study, exceptions, logging, pruners, samplers
from optuna._transform import _SearchSpaceTransform
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from andiron import errors
from andiron.sweep.search.search_options import SearchOptions
from andiron.sweep.search.search_space import SearchSpace

PRUNERS = {
    "median": pruners.MedianPruner,
    "percentile": pruners.PercentilePruner,
    "hyperband": pruners.HyperbandPruner,
}


def sampler(options: SearchOptions, space: SearchSpace, number: int) -> samplers.BaseSampler:
    """The sampler for trial `number`.

    Raises: ConfigError for options that it does not take.
    """
    seed = int(numpy.random.SeedSequence([options.seed, number]).generate_state(1)[0])
    given = options.sampler_options or {}

    def made() -> samplers.BaseSampler:
        if options.sampler == "tpe":
            # trials under way count as bad ones, so that others look elsewhere
            return samplers.TPESampler(**{"seed": seed, "constant_liar": True} | given)
        if options.sampler == "random":
            return samplers.RandomSampler(seed=seed, **given)
        if options.sampler == "grid":
            return _Grid(space.grid(), seed=options.seed, **given)
        quiet = {"independent_sampler": samplers.RandomSampler(seed=seed)}
        if options.sampler == "qmc":
            scrambled = {"seed": options.seed, "scramble": True}  # one sequence for the study
            return samplers.QMCSampler(
                **quiet | scrambled | {"warn_independent_sampling": False} | given
            )
        if given.get("with_margin"):
            raise ValueError("with_margin is not supported here")
        return PickleFreeCmaEs(**quiet | {"seed": seed, "warn_independent_sampling": False} | given)

    built: samplers.BaseSampler = _built(
        f"sampler={options.sampler}", "sampler_options", given, made
    )
    return built


def drawn(space: SearchSpace, number: int, seed: int) -> list[list[str]]:
    """The overrides of so many jobs with values at random; of more jobs the first are the same."""
    logging.set_verbosity(logging.ERROR)
    study = create_study(sampler=samplers.RandomSampler(seed))
    return [space.overrides(study.ask({**space.options}).params) for _ in range(number)]


def pruner(options: SearchOptions) -> pruners.BasePruner:
    """The pruner; one that prunes nothing if none is chosen.

    Raises: ConfigError for options that it does not take.
    """
    if options.pruner is None:
        return pruners.NopPruner()
    given = options.pruner_options or {}
    if options.pruner == "percentile":
        given = {"percentile": 25.0} | given
    kind = PRUNERS[options.pruner]
    built: pruners.BasePruner = _built(
        f"pruner={options.pruner}", "pruner_options", given, lambda: kind(**given)
    )
    return built


def _built(chosen: str, option: str, given: Mapping[str, Any], make: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ExperimentalWarning)
        try:
            return make()
        except (TypeError, ValueError) as error:
            why = f"does not fit hydra.sweeper.{chosen}: {error}"
            raise errors.ConfigError([f"hydra.sweeper.{option}={dict(given)}: {why}"]) from error


class _Grid(samplers.GridSampler):
    """The grid, whose end the search itself knows: optuna would stop a loop that it does not run.
    """

    def after_trial(self, *_: Any) -> None:
        pass


class PickleFreeCmaEs(samplers.CmaEsSampler):
    """CMA-ES whose state follows from the values of the trials.

    optuna unpickles it from the storage, which may come from anybody. Here it is computed anew for
    each trial: every generation that has ended is told to a new optimizer.
    """

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]
    ) -> dict[str, Any]:
        self._searched = study.direction, search_space
        return super().sample_relative(study, trial, search_space)

    def _restore_optimizer(self, completed_trials: list[FrozenTrial]) -> Any:
        direction, space = self._searched
        transform = _SearchSpaceTransform(space, transform_step=True, transform_0_1=True)
        sign = 1 if direction == StudyDirection.MINIMIZE else -1
        optimizer = self._init_optimizer(transform, direction)
        while len(ended := self._of_generation(completed_trials, optimizer)) > 0:
            points = [transform.transform(each.params) for each in ended]
            values = [sign * float(each.value or 0) for each in ended]
            optimizer.tell(list(zip(points, values, strict=True)))
        return optimizer

    def _of_generation(self, trials: list[FrozenTrial], optimizer: Any) -> Sequence[FrozenTrial]:
        """The trials of the optimizer's generation, if it has ended."""
        found = self._get_solution_trials(trials, optimizer.generation)[: optimizer.population_size]
        return found if len(found) == optimizer.population_size else []

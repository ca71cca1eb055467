"""The study of a sweep: trials in a database in its folder, which a later command continues."""

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from andiron import errors
from andiron.plain.plain_values import is_finite
from andiron.sweep.search import samplers, study_storage
from andiron.sweep.search.objectives import Objective
from andiron.sweep.search.search_options import SearchOptions
from andiron.sweep.search.search_space import SearchSpace

STUDY = "sweep"  # its name in the storage
SEARCHED, AGAIN = "searched", "again"  # attributes: what the study is of; of a repeated trial
OPTUNAS = {"lowest": "minimize", "highest": "maximize"}


class SweepStudy:
    """The study in a sweep's folder; `trials` are all of it, `left` the number still to begin."""

    def __init__(
        self,
        folder: Path,
        space: SearchSpace,
        objectives: Sequence[Objective],
        options: SearchOptions,
    ):
        """Opens the study, or makes one; trials that failed or were cut off wait for another start.

        Raises: ConfigError for options that do not fit, or another search in the folder; and as
        `tell`.
        """
        self._space, self._options = space, options
        self.objectives = tuple(objectives)
        samplers.sampler(options, space, 0)  # its options are refused before anything is written
        pruner = samplers.pruner(options)
        if options.pruner and len(objectives) > 1:
            why = "a trial with several objectives has no single value to be pruned by"
            raise errors.ConfigError(
                [f"hydra.sweeper.pruner={options.pruner}: {why}; leave it out"]
            )
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        most = options.n_trials
        if options.sampler == "grid":
            most = min(most, math.prod(map(len, space.grid().values())))
        self._path = folder / study_storage.FILES[options.storage]
        with _explained(self._path):
            self.optuna = optuna.create_study(
                storage=study_storage.storage(self._path),
                study_name=STUDY,
                directions=[OPTUNAS[each.direction] for each in objectives],
                pruner=pruner,
                load_if_exists=True,
            )
            self._check_same(folder)
            self._requeue()
            self.left = max(0, most - len(self.trials(TrialState.COMPLETE, TrialState.PRUNED)))

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The trials in these states, or in any, in their order."""
        return self.optuna.get_trials(deepcopy=False, states=states or None)

    def ask(self) -> tuple[Trial, list[str]]:
        """A new trial, and the overrides of its run; raises as `tell`."""
        self.left -= 1
        number = len([each for each in self.trials() if AGAIN not in each.user_attrs])
        self.optuna.sampler = samplers.sampler(self._options, self._space, number)
        with warnings.catch_warnings(), _explained(self._path):
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            trial = self.optuna.ask({**self._space.options})
        return trial, self._space.overrides(trial.params)

    def varied(self, trial: Trial) -> list[str]:
        """The overrides that tell the run of a trial from others."""
        return self._space.overrides(trial.params)[len(self._space.fixed) :]

    def report(self, trial: Trial, values: Sequence[float]) -> bool:
        """Whether to prune the trial, whose objective had these values at its validations.

        Raises: as `tell`.
        """
        if len(self.objectives) > 1:
            return False
        with _explained(self._path):
            known = len(self.optuna.trials[trial.number].intermediate_values)
            for step, value in enumerate(values[known:], known + 1):
                trial.report(value, step)
            return len(values) > known and bool(trial.should_prune())

    def tell(self, trial: Trial, values: Sequence[float | None] | None, *, pruned: bool) -> None:
        """Ends a trial: with its objectives, pruned, or failed.

        Raises: DataError for a damaged study; SweepError if it cannot be written.
        """
        with _explained(self._path):
            if pruned:
                self.optuna.tell(trial, state=TrialState.PRUNED)
            elif values is not None and all(is_finite(each) for each in values):
                self.optuna.tell(trial, [float(each) for each in values if each is not None])
            else:
                self.optuna.tell(trial, state=TrialState.FAIL)

    def _check_same(self, folder: Path) -> None:
        """Refuses to continue a study of something else."""
        now = {
            **{name: str(kind) for name, kind in self._space.options.items()},
            "what all jobs share": sorted(self._space.fixed),
            "objective": [f"{each.name}, {each.direction}" for each in self.objectives],
        }
        before = self.optuna.user_attrs.get(SEARCHED)
        if before is None:
            self.optuna.set_user_attr(SEARCHED, now)
            return
        differing = [name for name in now | before if now.get(name) != before.get(name)]
        if differing:
            raise errors.ConfigError(
                f"{folder} holds a search with another {name}: {json.dumps(before.get(name))}, now "
                f"{json.dumps(now.get(name))}; choose another sweep_name"
                for name in differing
            )

    def _requeue(self) -> None:
        """Has trials that failed or were cut off begin again, with the same values."""
        for trial in self.trials(TrialState.RUNNING):
            self.optuna.tell(trial.number, state=TrialState.FAIL)
        begun = [
            each.system_attrs.get("fixed_params") or each.params  # of one that is waiting, or other
            for each in self.trials()
            if each.state != TrialState.FAIL
        ]
        for trial in self.trials(TrialState.FAIL):
            is_whole = trial.params.keys() == self._space.options.keys()  # not cut off while asked
            if is_whole and trial.params not in begun:
                begun.append(trial.params)
                self.optuna.enqueue_trial(trial.params, user_attrs={AGAIN: True})


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Names the file that optuna could not read or write: it may come from anybody."""
    try:
        yield
    except errors.AndironError:
        raise
    except Exception as error:  # whatever the damage made of the types within optuna
        if why := study_storage.why_unwritten(error):
            raise errors.SweepError(
                f"{path} could not be written ({why}); free space there, or make it writable: the "
                "same command then continues the search"
            ) from error
        raise errors.DataError(
            f"{path}: is no study that can be continued ({type(error).__name__}: "
            f"{errors.first_line(error)}); restore it, or choose another sweep_name"
        ) from error

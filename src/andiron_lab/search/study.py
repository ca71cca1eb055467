"""The study of a sweep: trials in a database in its folder, resumed by a later command."""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from andiron import errors
from andiron.plain.plain_values import is_finite
from andiron_lab.search import samplers, study_storage
from andiron.wings.sweep.objectives import Objective
from andiron_lab.search.search_options import SearchOptions
from andiron_lab.search.search_space import SearchSpace

STUDY = "sweep"  # its name in the storage
SEARCHED, AGAIN = "searched", "again"  # attributes: of the study; of a repeated trial
OPTUNA_DIRECTIONS = {"lowest": "minimize", "highest": "maximize"}


class SweepStudy:
    """The study in a sweep's folder.

    `left` is the number of trials still to start, `shared` the overrides that all jobs share.
    """

    def __init__(
        self,
        folder: Path,
        space: SearchSpace,
        objectives: Sequence[Objective],
        options: SearchOptions,
    ):
        """Opens or creates the study; queues failed and interrupted trials for another attempt.

        Raises: ConfigError for invalid options, or another search in the folder; and as `tell`.
        """
        self._space, self._options = space, options
        self.shared, self.objectives = space.fixed, tuple(objectives)
        samplers.sampler(options, 0)  # checks its options before anything is written
        pruner = samplers.pruner(options, len(objectives))
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._path = folder / study_storage.FILES[options.storage]
        with _explaining_errors(self._path):
            self.optuna = optuna.create_study(
                storage=study_storage.storage(self._path),
                study_name=STUDY,
                directions=[OPTUNA_DIRECTIONS[goal.direction] for goal in objectives],
                pruner=pruner,
                load_if_exists=True,
            )
            self._check_same(folder)
            self._requeue()
            ended = self.trials(TrialState.COMPLETE, TrialState.PRUNED)
            self.left = max(0, options.n_trials - len(ended))

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The trials in these states, or all of them, in order."""
        return self.optuna.get_trials(deepcopy=False, states=states or None)

    def ask(self) -> tuple[Trial, list[str]]:
        """A new trial and the overrides of its run; raises as `tell`."""
        self.left -= 1
        number = len([trial for trial in self.trials() if AGAIN not in trial.user_attrs])
        self.optuna.sampler = samplers.sampler(self._options, number)
        with warnings.catch_warnings(), _explaining_errors(self._path):
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            trial = self.optuna.ask({**self._space.options})
        return trial, self._space.overrides(trial.params)

    def report(self, trial: Trial, values: Sequence[float]) -> bool:
        """Reports the objective at each validation so far; returns whether to prune the trial.

        Raises: as `tell`.
        """
        if len(self.objectives) > 1:
            return False
        with _explaining_errors(self._path):
            reported = len(self.optuna.trials[trial.number].intermediate_values)
            for step, value in enumerate(values[reported:], reported + 1):
                trial.report(value, step)
            return len(values) > reported and bool(trial.should_prune())

    def tell(self, trial: Trial, values: Sequence[float | None] | None, *, pruned: bool) -> None:
        """Ends a trial as complete with its objectives, pruned, or failed.

        Raises: DataError for a damaged study; SweepError if it cannot be written.
        """
        with _explaining_errors(self._path):
            if pruned:
                self.optuna.tell(trial, state=TrialState.PRUNED)
            elif values is not None and all(is_finite(value) for value in values):
                self.optuna.tell(trial, [float(value) for value in values if value is not None])
            else:
                self.optuna.tell(trial, state=TrialState.FAIL)

    def _check_same(self, folder: Path) -> None:
        """Raises: ConfigError if the folder holds a study of another search."""
        now = {
            **{name: str(kind) for name, kind in self._space.options.items()},
            "what all jobs share": sorted(self._space.fixed),
            "objective": [f"{goal.name}, {goal.direction}" for goal in self.objectives],
        }
        before = self.optuna.user_attrs.get(SEARCHED)
        if before is None:
            self.optuna.set_user_attr(SEARCHED, now)
            return
        changed = [name for name in now | before if now.get(name) != before.get(name)]
        if changed:
            raise errors.ConfigError(
                f"{folder} holds a search with another {name}: {json.dumps(before.get(name))}, now "
                f"{json.dumps(now.get(name))}; choose another sweep_name"
                for name in changed
            )

    def _requeue(self) -> None:
        """Queues failed and interrupted trials again, with the same values."""
        for trial in self.trials(TrialState.RUNNING):
            self.optuna.tell(trial.number, state=TrialState.FAIL)
        present = [
            trial.system_attrs.get("fixed_params") or trial.params  # of a queued trial, else
            for trial in self.trials()
            if trial.state != TrialState.FAIL
        ]
        for trial in self.trials(TrialState.FAIL):
            is_whole = trial.params.keys() == self._space.options.keys()  # else killed during `ask`
            if is_whole and trial.params not in present:
                present.append(trial.params)
                self.optuna.enqueue_trial(trial.params, user_attrs={AGAIN: True})


@contextmanager
def _explaining_errors(path: Path) -> Iterator[None]:
    """Turns errors of optuna, whose storage is untrusted, into errors that name the file."""
    try:
        yield
    except errors.AndironError:
        raise
    except Exception as error:  # damage can raise any type within optuna
        if why := study_storage.why_unwritten(error):
            raise errors.SweepError(
                f"{path} could not be written ({why}); free space there, or make it writable: the "
                "same command then continues the search"
            ) from error
        raise errors.DataError(
            f"{path}: is not a readable optuna study ({type(error).__name__}: "
            f"{errors.first_line(error)}); restore it, or choose another sweep_name"
        ) from error

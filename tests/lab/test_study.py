"""The study of a sweep: what is proposed, what is continued, and what is refused."""

import contextlib
import dataclasses
import math
import sqlite3

import pytest
from optuna.trial import TrialState

from andiron import errors
from andiron.shell.config import violations
from andiron.wings.sweep.objectives import Objective
from andiron_lab.search.search_options import SearchOptions
from andiron_lab.search.search_space import search_space
from andiron_lab.search.study import SweepStudy
from refusals import message_of

LOSS, ACCURACY = Objective("valid/loss", "lowest"), Objective("valid/accuracy", "highest")
SPACE = search_space(["lr=tag(log,interval(1e-4,1e-1))", "n=range(1,9)", "o=adam,sgd"], None)
CLASS = """UPDATE trial_params SET distribution_json = '{"name": "os.system"}'"""
JOURNAL = SearchOptions(n_trials=8, storage="journal")


def opened(folder, objectives=(LOSS,), space=SPACE, options=JOURNAL):
    return SweepStudy(folder, space, objectives, options)


def value(params):
    """The minimised function: best at lr=0.01, n=1, o=adam."""
    return abs(math.log10(float(params["lr"])) + 2) + int(params["n"]) + (params.get("o") == "sgd")


def searched(study, most=1000):
    """The study after `most` more trials, or all."""
    while study.left and most:
        most -= 1
        trial, _ = study.ask()
        study.tell(trial, [value(trial.params)], pruned=False)
    return study


def completed(study):
    return [(trial.params, trial.values) for trial in study.trials(TrialState.COMPLETE)]


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
def test_an_interrupted_search_continues_with_the_same_trials(tmp_path, sampler):
    early = {"n_startup_trials": 2} if sampler == "tpe" else {}
    options = dataclasses.replace(JOURNAL, sampler=sampler, sampler_options=early)
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = completed(searched(opened(tmp_path / "whole", options=options)))

    study = searched(opened(tmp_path / "cut", options=options), 3)
    cut_off, _ = study.ask()
    del study
    again = opened(tmp_path / "cut", options=options)
    first, overrides = again.ask()
    assert first.params == cut_off.params and overrides == SPACE.overrides(cut_off.params)
    again.tell(first, [value(first.params)], pruned=False)
    assert completed(searched(again)) == whole and len(whole) == 8


def test_trials_are_kept_in_sqlite(tmp_path):
    options = dataclasses.replace(JOURNAL, storage="sqlite")
    searched(opened(tmp_path, options=options), 1)

    assert (tmp_path / "study.db").is_file()
    assert opened(tmp_path, options=options).left == 7


def test_a_failed_trial_is_repeated_by_the_next_command(tmp_path):
    study = opened(tmp_path)
    trial, _ = study.ask()
    study.tell(trial, [math.nan], pruned=False)
    other, _ = study.ask()
    study.tell(other, None, pruned=False)
    searched(study)
    assert study.left == 0 and len(completed(study)) == 6

    again = opened(tmp_path)
    assert again.left == 2
    assert [again.ask()[0].params for _ in range(2)] == [trial.params, other.params]


def test_the_best_trial_has_the_direction_of_the_objective(tmp_path):
    study = opened(tmp_path, [ACCURACY])
    searched(study)
    values = [values[0] for _, values in completed(study)]

    assert study.optuna.best_value == max(values)


def test_a_bad_trial_is_pruned_by_the_median(tmp_path):
    options = dataclasses.replace(JOURNAL, pruner="median", pruner_options={"n_startup_trials": 3})
    study = opened(tmp_path, options=options)
    for _ in range(3):
        trial, _ = study.ask()
        assert not study.report(trial, [1.0]) and not study.report(trial, [1.0, 0.5])
        study.tell(trial, [0.5], pruned=False)

    trial, _ = study.ask()
    assert not study.report(trial, [1.0])
    assert not study.report(trial, [1.0])
    assert study.report(trial, [1.0, 0.9])
    study.tell(trial, None, pruned=True)

    assert [entry.value for entry in study.trials(TrialState.PRUNED)] == [0.9]
    assert opened(tmp_path, options=options).left == 4


@pytest.mark.parametrize("pruner", ["percentile", "hyperband", "successive_halving", "wilcoxon"])
def test_every_pruner_ends_some_trials(tmp_path, pruner):
    options = dataclasses.replace(JOURNAL, n_trials=20, pruner=pruner)
    study = opened(tmp_path, options=options)
    while study.left:
        trial, _ = study.ask()
        is_pruned = any(
            study.report(trial, [value(trial.params)] * number) for number in range(1, 10)
        )
        study.tell(trial, None if is_pruned else [value(trial.params)], pruned=is_pruned)

    assert study.trials(TrialState.PRUNED) and study.trials(TrialState.COMPLETE)


def test_several_objectives_are_traded_off_and_not_pruned(tmp_path):
    study = opened(tmp_path, [LOSS, ACCURACY])
    for pair in ([1, 0.5], [2, 0.9], [2, 0.4], [3, 0.8], [math.inf, 1]):
        trial, _ = study.ask()
        assert not study.report(trial, [1.0])
        study.tell(trial, pair, pruned=False)

    assert [entry.values for entry in study.optuna.best_trials] == [[1, 0.5], [2, 0.9]]
    options = dataclasses.replace(JOURNAL, pruner="median")
    with pytest.raises(errors.ConfigError, match="pruner=median: a trial with several objectives"):
        opened(tmp_path, [LOSS, ACCURACY], options=options)


@pytest.mark.parametrize(("changed", "why"), [
    ({"space": search_space(["lr=interval(0,1)"], None)}, "another lr: "),
    ({"objectives": [ACCURACY]}, 'another objective: ["valid/loss, lowest"], now '),
])  # fmt: skip
def test_another_search_in_the_folder_is_refused(tmp_path, changed, why):
    opened(tmp_path)

    refused = message_of(errors.ConfigError, opened, tmp_path, **changed)
    assert why in refused and "choose another sweep_name" in refused


def checked(given):
    return violations.checked(SearchOptions, given, prefix="hydra.sweeper.")


@pytest.mark.parametrize(("given", "problem"), [
    ({"n_trials": 0}, "hydra.sweeper.n_trials=0: should be greater than or equal to 1"),
    ({"sampler": "tpo"}, "hydra.sweeper.sampler=tpo: should be 'tpe', 'random' or 'qmc'"),
    ({"n_trails": 3}, "hydra.sweeper.n_trails: no such option; did you mean 'n_trials'?"),
    ({"directions": ["up"]}, "hydra.sweeper.directions=['up']: should be 'lowest' or"),
])  # fmt: skip
def test_wrong_options_are_refused_by_name(given, problem):
    with pytest.raises(errors.ConfigError) as refused:
        checked(given)
    assert refused.value.problems[0].startswith(problem)


@pytest.mark.parametrize(("given", "problem"), [
    ({"sampler_options": {"n_startup": 1}}, "hydra.sweeper.sampler_options={'n_startup': 1}: "),
    ({"pruner": "percentile", "pruner_options": {"percentile": 200}},
     "hydra.sweeper.pruner_options={'percentile': 200}: does not fit"),
])  # fmt: skip
def test_options_that_optuna_does_not_accept_are_refused(tmp_path, given, problem):
    with pytest.raises(errors.ConfigError) as refused:
        opened(tmp_path, options=checked(given))

    assert refused.value.problems[0].startswith(problem)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("storage", "damage"),
    {
        "a line that is no JSON": ("journal", "nonsense\n{}\n"),
        "an unknown event": ("journal", '{"op_code": 99, "worker_id": "x"}\n'),
        "a class": ("sqlite", CLASS),
        "a pickle": ("sqlite", "UPDATE study_user_attributes SET value_json = x'80049529'"),
        "another schema": ("sqlite", "ALTER TABLE trials RENAME COLUMN state TO x"),
    }.values(),
)
def test_a_modified_study_is_refused_by_its_name(storage, damage, tmp_path):
    options = dataclasses.replace(JOURNAL, storage=storage)
    searched(opened(tmp_path, options=options), 1)
    if storage == "journal":
        with (tmp_path / "study.jsonl").open("a") as file:
            file.write(damage)
    else:
        with contextlib.closing(sqlite3.connect(tmp_path / "study.db")) as database:
            database.execute(damage)
            database.commit()

    with pytest.raises(errors.DataError, match="study.*: is not a readable optuna study"):
        searched(opened(tmp_path, options=options))


def test_an_oversized_study_is_not_read(tmp_path):
    with (tmp_path / "study.jsonl").open("wb") as file:
        file.truncate(2**40)

    assert "study.jsonl has more than" in message_of(errors.DataError, opened, tmp_path)

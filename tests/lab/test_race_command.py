"""`hydra/sweeper=race` in this process: what it refuses, its result, and more seeds afterwards."""

import json
import re
import shlex
from pathlib import Path

import pytest

from andiron.plain.states import State
from andiron.shell.training import train
from andiron.wings.runs import command as runs
from andiron.wings.trained import evaluate
from andiron.wings.sweep import ledger
from in_process import called

PAGE = Path(__file__).resolve().parents[2] / "docs" / "race.md"
RACE = ("-m", "hydra/sweeper=race", "hydra.sweep.dir=raced", "lr=1e-3,1e-2", "num_epochs=4")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    {
        "few seeds": (["seed=1,2"],
                      "seed: 2 of each configuration; a race compares by seeds, at least "
                      "hydra.sweeper.min_seeds=3; give more, such as 'seed=range(0,10)'"),
        "a launcher that cannot pause": (["seed=1,2,3", "hydra/launcher=basic"],
                                         "hydra/sweeper=race: this launcher cannot stop one run "
                                         "alone; choose"),
        "runs of different length": (["seed=1,2,3", "num_epochs=4,9"],
                                     "num_epochs=4,9: all jobs of a race must have the same; "),
        "runs whose metrics are not logged as lines": (["seed=1,2,3", "writers=tensorboard"],
                                                       "hydra/sweeper=race: reads metrics.jsonl, "
                                                       "which is not written; choose"),
        "an interval": (["seed=1,2,3", "lr=interval(1e-3,1)"],
                        "lr=interval(1e-3,1): an interval has no grid; hydra/sweeper=optuna"),
        "a factor that reduces nothing": (["seed=1,2,3", "hydra.sweeper.reduction_factor=1"],
                                          "hydra.sweeper.reduction_factor=1: should be greater "
                                          "than or equal to 2"),
        "rungs in another unit": (["seed=1,2,3", "num_epochs=null", "num_updates=100"],
                                  "num_updates=100: the rungs are in updates too; give "
                                  "hydra.sweeper.min_updates=10"),
        "rungs without a validation": (["seed=1,2,3", "validate_every=2epochs"],
                                       "validate_every=2epochs: jobs are compared after 1, 3 "
                                       "epochs, and must be validated"),
        "an objective of the end": (["seed=1,2,3", "objective=test/accuracy"],
                                    "objective=test/accuracy: is measured at the end of a run "
                                    "only; choose one of valid/"),
        "a test without spread": (["seed=1,2", "hydra.sweeper.min_seeds=1"],
                                  "hydra.sweeper.min_seeds=1: should be greater than or equal"),
    }.values(),
)  # fmt: skip
def test_an_invalid_race_is_refused(here, arguments, problem):
    ended = called(train.main, *RACE, *arguments)

    assert ended.code == 2
    (line,) = ended.problems
    assert line.startswith(problem)
    assert not (here / "raced" / "sweep.jsonl").exists()


def test_the_race_of_the_page_drops_what_is_worse_and_the_grid_completes_it(here):
    (line,) = re.findall(r"^python train.py .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    small = ("num_epochs=3", "model.hidden=[16]", "render=plain", "jobs=2", "seed=0,1,2,3")
    race = [*(text for text in shlex.split(line)[2:] if not text.startswith("seed=")), *small]
    folder = here / "multirun" / "raced"

    ended = called(train.main, *race)

    assert (ended.code, ended.errors) == (0, "")
    (verdict,) = re.findall(r"^\d of 4 configurations .*$", ended.output, re.MULTILINE)
    jobs = {job.number: job for job in ledger.read(folder).jobs.values()}
    pruned = [job for job in jobs.values() if job.status == State.PRUNED]
    assert pruned and all(job.reason.startswith("worse by ") for job in pruned)

    again = called(train.main, *race)

    assert again.code == 0 and verdict in again.output
    starts = {job.number: job.starts for job in ledger.read(folder).jobs.values()}
    assert starts == {number: job.starts for number, job in jobs.items()}

    grid = called(train.main, *(text for text in race if text != "hydra/sweeper=race"))

    assert grid.code == 0
    assert {job.status for job in ledger.read(folder).jobs.values()} == {State.DONE}
    refused = called(train.main, *race)
    assert refused.code == 2
    (problem,) = refused.problems
    assert "was trained past 1, where this race compares; give hydra.sweeper.min_ep" in problem


def test_a_diverged_job_drops_its_configuration_and_is_in_the_table(here):
    ended = called(
        train.main, *RACE[:3], "optimizer=sgd", "lr=1e-2,1e30", "seed=1,2,3", "num_epochs=1",
        "hydra.sweeper.min_epochs=null", "model.hidden=[16]", "render=plain",
    )  # fmt: skip

    assert ended.code == 0
    assert "pruned (no value of 1 of 1 seeds)" in ended.output
    assert "of 6 jobs: 3 done, 1 diverged, 2 pruned" in ended.output
    assert "1 of 2 configurations is left (66.7% of the training of all 6 runs): lr=0.01" in (
        ended.output
    )


PAUSED = (
    "-m", "hydra.sweep.dir=raced", "lr=1e-2,1e-3", "seed=1,2,3", "num_epochs=4",
    "model.hidden=[32]", "scheduler=cosine", "render=plain",
)  # fmt: skip
HALVES = "hydra/sweeper=race", "hydra.sweeper.reduction_factor=2", "objective=valid/accuracy"


def test_a_job_paused_twice_equals_the_uninterrupted_run_bit_for_bit(here):
    ended = called(train.main, *PAUSED, *HALVES)

    assert (ended.code, ended.errors) == (0, "")
    folder = here / "raced"
    jobs = list(ledger.read(folder).jobs.values())
    best = [job for job in jobs if job.status == State.DONE][0]
    assert [at for at, _ in best.rungs] == [1, 2]

    # a job too, of the same clean process, so that it has as many threads
    alone = called(train.main, "-m", *best.overrides, "hydra.sweep.dir=alone", "render=plain")
    assert (alone.code, alone.errors) == (0, "")
    folders = here / "alone" / "0", folder / best.folder
    weights, measured = zip(*map(results, folders), strict=True)
    assert weights[0] == weights[1] and measured[0] == measured[1]

    for change, problem in {
        "hydra.sweeper.min_epochs=2": "jobs that paused at [1, 2], and now the rungs are 2",
        "objective=valid/loss": "jobs that were compared by objective=valid/accuracy, and now",
    }.items():
        (line,) = called(train.main, *PAUSED, *HALVES, change).problems
        assert line.startswith(f"raced holds {problem}")
    _is_read_as_of_an_older_version(folder)


def _is_read_as_of_an_older_version(folder):
    """A sweep that `hydra/sweeper=asha` left: of its jobs some are paused, none is pruned."""
    path = folder / "sweep.jsonl"
    lines = path.read_text().replace("sweeper=race", "sweeper=asha").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"pruned"' not in line))
    paused = [job for job in ledger.read(folder).jobs.values() if job.status == State.PAUSED]
    run = folder / paused[0].folder

    compared = called(runs.main, "compare", folder)
    assert compared.code == 0 and f"{len(paused)} paused" in compared.output
    assert called(runs.main, "list", folder).output.count(" paused ") == len(paused)
    assert called(train.main, f"resume={run}").code == 0
    assert called(evaluate.main, run).code == 0
    assert called(train.main, *PAUSED).code == 0
    now = ledger.read(folder)
    assert {now.current(job).status for job in now.jobs.values()} == {State.DONE}


def results(folder):
    """The weights of a run, and the values of its epochs."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    epochs = [
        {name: value for name, value in line.items() if not name.startswith(("time/", "system/"))}
        for line in lines
        if line["over"] == "epoch"
    ]
    return (folder / "model.safetensors").read_bytes(), epochs

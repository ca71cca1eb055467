"""`hydra/sweeper=race` in this process: what it refuses, its result, and more seeds afterwards."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from andiron.plain.states import State
from andiron.shell.training import train
from andiron.wings.sweep import ledger
from in_process import called

PAGE = Path(__file__).resolve().parents[3] / "docs" / "race.md"
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
    rows = list(csv.DictReader((folder / "summary.csv").read_text().splitlines()))
    assert [row["reason"] for row in rows if row["status"] == "pruned"] == [
        job.reason for job in sorted(pruned, key=lambda job: job.number)
    ]

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

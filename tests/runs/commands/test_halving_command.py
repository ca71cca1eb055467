"""`hydra/sweeper=asha` in this process: what it refuses, and the bits of a run that paused."""

import json
import re
import shlex
from pathlib import Path

import pytest

from andiron.plain.states import State
from andiron.shell.training import train
from andiron.wings.sweep import ledger
from in_process import called

PAGE = Path(__file__).resolve().parents[3] / "docs" / "asha.md"
ASHA = ("-m", "hydra/sweeper=asha", "hydra.sweep.dir=halved", "lr=1e-3,1e-2", "num_epochs=4")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    {
        "a launcher that cannot pause": (["hydra/launcher=basic"],
                                         "hydra/sweeper=asha: this launcher cannot stop one run "
                                         "alone; choose"),
        "runs whose metrics are not logged as lines": (["writers=tensorboard"],
                                                       "hydra/sweeper=asha: reads metrics.jsonl, "
                                                       "which is not written; choose"),
        "an interval without a number of jobs": (["lr=interval(1e-3,1)"],
                                                 "lr=interval(1e-3,1): an interval has no grid; "
                                                 "hydra.sweeper.n_trials=27 draws"),
        "a factor that reduces nothing": (["hydra.sweeper.reduction_factor=1"],
                                          "hydra.sweeper.reduction_factor=1: should be greater "
                                          "than or equal to 2"),
        "runs of different length": (["num_epochs=4,9"],
                                     "num_epochs=4,9: all jobs of successive halving must have "
                                     "the same; give one"),
        "no rung": (["hydra.sweeper.min_epochs=4"],
                    "hydra.sweeper.min_epochs=4: no rung below num_epochs=4; give a smaller one"),
        "rungs in another unit": (["num_epochs=null", "num_updates=100"],
                                  "num_updates=100: the rungs are in updates too; give "
                                  "hydra.sweeper.min_updates=10"),
        "rungs without a validation": (["validate_every=2epochs"],
                                       "validate_every=2epochs: jobs are compared after 1, 3 "
                                       "epochs, and must be validated"),
        "an objective of the end": (["objective=test/accuracy"],
                                    "objective=test/accuracy: is measured at the end of a run "
                                    "only; choose one of valid/"),
    }.values(),
)  # fmt: skip
def test_an_invalid_halving_is_refused(here, arguments, problem):
    ended = called(train.main, *ASHA, *arguments)

    assert ended.code == 2
    (line,) = ended.problems
    assert line.startswith(problem)
    assert not (here / "halved" / "sweep.jsonl").exists()


def test_a_job_paused_twice_equals_the_uninterrupted_run_bit_for_bit(here):
    small = ("num_epochs=4", "model.hidden=[32]", "scheduler=cosine", "render=plain")
    (line,) = re.findall(r"^python train.py .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    factor = "hydra.sweeper.reduction_factor=2"
    sweep = (*shlex.split(line)[2:], *small, "optimizer=adam", "jobs=1", factor)

    folder = here / "multirun" / "halved"

    ended = called(train.main, *sweep)

    assert (ended.code, ended.errors) == (0, "")
    assert "of 3 jobs: " in ended.output and "1 done" in ended.output
    assert re.search(r"group +runs +lr +valid/accuracy", ended.output)  # that differs from others
    jobs = list(ledger.read(folder).jobs.values())
    (best,) = [job for job in jobs if job.status == State.DONE]
    assert [at for at, _ in best.rungs] == [1, 2]
    others = [job.rungs for job in jobs if job is not best]
    assert [[at for at, _ in each] for each in others] == [[1], [1]]

    # a job too, of the same clean process, so that it has as many threads
    alone = called(train.main, "-m", *best.overrides, *small, "hydra.sweep.dir=alone")
    assert (alone.code, alone.errors) == (0, "")
    folders = here / "alone" / "0", folder / best.folder
    weights, measured = zip(*map(results, folders), strict=True)
    assert weights[0] == weights[1] and measured[0] == measured[1]

    again = called(train.main, *sweep)

    assert again.code == 0 and "1 of 3 jobs are done already" in again.output
    assert [job.starts for job in ledger.read(folder).jobs.values()] == [job.starts for job in jobs]
    for change, problem in {
        "hydra.sweeper.min_epochs=2": "jobs that paused at [1, 2], and now the rungs are 2",
        "objective=valid/loss": "jobs that were compared by objective=valid/accuracy, and now",
    }.items():
        (line,) = called(train.main, *sweep, change).problems
        assert line.startswith(f"multirun/halved holds {problem}")


def results(folder):
    """The weights of a run, and the values of its epochs."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    epochs = [
        {name: value for name, value in line.items() if not name.startswith(("time/", "system/"))}
        for line in lines
        if line["over"] == "epoch"
    ]
    return (folder / "model.safetensors").read_bytes(), epochs

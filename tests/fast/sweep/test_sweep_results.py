"""The results of a sweep: its summary, and the command of a job."""

import csv
import io

from andiron.plain.states import State
from andiron.wings.sweep import sweep_results
from andiron.wings.sweep.ledger import Job

JOBS = [
    Job("a", 0, ("optimizer=adam", "lr=0.1", "num_epochs=2"), State.DONE, objective=0.5),
    Job("b", 1, ("optimizer=sgd", "lr=0.1", "num_epochs=2"), State.FAILED, "it broke,\ntwice"),
    Job("c", 2, ("optimizer=adam", "lr=0.2", "num_epochs=2"), State.DONE, objective=0.75),
]


def test_the_summary_has_a_column_for_each_option_that_was_varied():
    written = sweep_results.as_csv(JOBS[::-1], "valid/loss")
    rows = list(csv.DictReader(io.StringIO(written)))

    assert {*rows[0]} == {"job", "optimizer", "lr", *sweep_results.FACTS, "metric"}
    assert [row["optimizer"] for row in rows] == ["adam", "sgd", "adam"]
    assert {row["metric"] for row in rows} == {"valid/loss"}
    assert [row["number"] for row in rows] == ["0", "1", "2"]
    assert [row["objective"] for row in rows] == ["0.5", "", "0.75"]
    assert rows[1]["reason"] == "it broke,\ntwice" and rows[1]["lr"] == "0.1"


def test_the_command_of_a_job_is_quoted_and_printable():
    job = Job("d", 3, ("name=a b", "lr=0.1\x1b[2J\n"), threads="1")

    command = sweep_results.command_of(job, ["train.py", "-m", "lr=1,2"])

    assert command == "OMP_NUM_THREADS=1 python train.py 'name=a b' 'lr=0.1\\x1b[2J\\n'"


def test_the_command_of_a_job_repeats_script_and_folders_of_the_sweep():
    job = Job("d", 3, ("experiment=mine", "lr=0.1"))

    def command(*sweep):
        return sweep_results.command_of(job, list(sweep))

    mine = "experiment=mine lr=0.1"
    called = "../a b/train.py", "experiment=mine", "-m", "--config-dir=my conf"
    assert command(*called) == f"python '../a b/train.py' {mine} --config-dir 'my conf'"
    of_module = "/x/andiron/__main__.py", "-m", "-cn", "own"
    assert command(*of_module) == f"python -m andiron {mine} --config-name own"
    assert command("/bin/andiron", "-m") == f"/bin/andiron {mine}"
    assert command("train.py", "--config-dir") == f"python train.py {mine}"  # a damaged ledger

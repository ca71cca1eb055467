"""The ledger of a sweep: what it says of each job, however it was left, and which number a job has.
"""

import os

import pytest

from andiron import errors
from andiron.sweep import ledger, settled
from andiron.sweep.ledger import Ledger


def planned(folder, *jobs):
    """The ledger of a folder, with these jobs."""
    book = Ledger(folder)
    for job in jobs:
        book.add("job", job=job.identity, number=job.number, overrides=job.overrides)
    return book


def test_a_job_is_known_by_what_is_trained_and_not_by_how_it_is_started():
    one = ledger.identity(["lr=0.1", "seed=1"])

    assert one == ledger.identity(["seed=1", "jobs=4", "render=plain", "+lr=0.1", "hydra.a=1"])
    assert one != ledger.identity(["lr=0.1", "seed=2"])


def test_known_jobs_keep_their_number_and_new_ones_get_the_next(tmp_path):
    before = settled.jobs(ledger.read(tmp_path), [["lr=1"], ["lr=3"]], first=0)
    planned(tmp_path, *before).close()

    now = settled.jobs(ledger.read(tmp_path), [["lr=1"], ["lr=2"], ["lr=3"], ["lr=4"]], first=0)

    assert [(job.overrides, job.number) for job in now] == [
        (("lr=1",), 0), (("lr=2",), 2), (("lr=3",), 1), (("lr=4",), 3)
    ]  # fmt: skip


def test_the_last_event_of_a_job_counts_and_a_torn_line_does_not(tmp_path):
    (job,) = settled.jobs(ledger.read(tmp_path), [["lr=1"]], first=0)
    book = planned(tmp_path, job)
    book.add("started", job=job.identity, pid=1)
    book.add("ended", job=job.identity, status="failed", reason="why", folder="0")
    book.add("started", job=job.identity, pid=2)
    book.close()
    with (tmp_path / ledger.NAME).open("a") as file:
        file.write('nonsense\n[1]\n{"event": "ended", "job": "' + job.identity)

    (found,) = ledger.read(tmp_path).jobs.values()

    assert (found.status, found.starts, found.folder) == (None, 2, "0")


@pytest.mark.parametrize("folder", ["/", "..", "a/../.."])
def test_a_folder_outside_of_the_sweep_is_not_looked_at(folder, tmp_path):
    (job,) = settled.jobs(ledger.read(tmp_path), [["lr=1"]], first=0)
    book = planned(tmp_path, job)
    book.add("ended", job=job.identity, status="done", folder=folder)
    book.close()
    sweep = ledger.read(tmp_path)

    assert sweep.folder_of(sweep.jobs[job.identity]) is None


def test_a_ledger_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / ledger.NAME)

    with pytest.raises(errors.DataError, match="cannot be read"):
        ledger.read(tmp_path)

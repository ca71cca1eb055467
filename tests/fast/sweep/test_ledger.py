"""The ledger of a sweep: what it says of each job, however it was left, and which number a job has.
"""

import json
import os
from dataclasses import replace

import pytest

from andiron import errors
from andiron.disk import checksums
from andiron.plain.states import State
from andiron.run_folder import LEDGER, RunFolder
from andiron.shell.run import run_record
from andiron.wings.sweep import ledger
from andiron.wings.sweep.ledger import Job, Ledger
from refusals import message_of

A, B = "a" * 16, "b" * 16  # identities of runs


def trained(folder, run, status="done"):
    """The folder of a run, with its weights."""
    run_folder = RunFolder(folder)
    folder.mkdir(exist_ok=True)
    run_folder.model.write_bytes(b"weights")
    run_folder.status.write_text(json.dumps({"status": status}))
    entries = {run_folder.model.name: [checksums.entry(run_folder.model)]}
    run_record.Manifest(run, entries).write(run_folder)


def planned(folder, *jobs):
    """The ledger of a folder, with these jobs."""
    book = Ledger(folder)
    for job in jobs:
        book.add("job", job=job.identity, number=job.number, overrides=job.overrides)
    return book


def test_a_job_is_identified_by_its_training_options_only():
    one = ledger.identity(["lr=0.1", "seed=1"])

    assert one == ledger.identity(["seed=1", "jobs=4", "render=plain", "+lr=0.1", "hydra.a=1"])
    assert one != ledger.identity(["lr=0.1", "seed=2"])


def test_known_jobs_keep_their_number_and_new_jobs_get_the_next(tmp_path):
    before = ledger.read(tmp_path).numbered([["lr=1"], ["lr=3"]])
    planned(tmp_path, *before).close()

    now = ledger.read(tmp_path).numbered([["lr=1"], ["lr=2"], ["lr=3"], ["lr=4"]])

    assert [(job.overrides, job.number) for job in now] == [
        (("lr=1",), 0), (("lr=2",), 2), (("lr=3",), 1), (("lr=4",), 3)
    ]  # fmt: skip


def test_the_last_event_of_a_job_counts_and_a_torn_line_does_not(tmp_path):
    (job,) = ledger.read(tmp_path).numbered([["lr=1"]])
    book = planned(tmp_path, job)
    book.add("started", job=job.identity, pid=1)
    book.add("ended", job=job.identity, status="failed", reason="why", folder="0")
    book.add("started", job=job.identity, pid=2)
    book.close()
    with (tmp_path / LEDGER).open("a") as file:
        file.write('nonsense\n[1]\n{"event": "ended", "job": "' + job.identity)

    (recorded,) = ledger.read(tmp_path).jobs.values()

    assert (recorded.status, recorded.starts, recorded.folder) == (None, 2, "0")


def test_the_seconds_of_a_job_include_those_before_each_pause(tmp_path):
    (job,) = ledger.read(tmp_path).numbered([["lr=1"]])
    book = planned(tmp_path, job)
    for pause_at, status, seconds in ((1, "killed", 9.0), (1, "paused", 2.0), (None, "done", 3.0)):
        book.add("started", job=job.identity, pid=1, pause_at=pause_at)
        book.add("ended", job=job.identity, status=status, objective=0.5, seconds=seconds)
    book.close()

    (recorded,) = ledger.read(tmp_path).jobs.values()

    assert (recorded.seconds, recorded.rungs) == (5.0, ((1, 0.5),))


def test_a_paused_job_whose_run_was_trained_to_its_end_is_done(tmp_path):
    (job,) = ledger.read(tmp_path).numbered([["lr=1"]])
    book = planned(tmp_path, job)
    book.add("started", job=job.identity, pid=1, pause_at=1)
    book.add("ended", job=job.identity, status="paused", folder="0", run=A, reason="after 1")
    book.close()
    sweep = ledger.read(tmp_path)
    (paused,) = sweep.jobs.values()

    trained(tmp_path / "0", A, "paused")
    assert sweep.current(paused) == paused

    trained(tmp_path / "0", A)
    assert (sweep.current(paused).status, sweep.current(paused).reason) == ("done", None)


def is_done(sweep, job):
    return {"done": True, "missing": False}[sweep.current(job).status]


def test_a_job_is_done_only_with_its_own_run_and_weights(tmp_path):
    sweep = ledger.Sweep(tmp_path)
    job = Job("j", 0, (), State.DONE, folder="0", run=A)
    assert not is_done(sweep, job) and sweep.current(job).reason.startswith("its results are gone")
    trained(tmp_path / "0", A)
    assert sweep.current(job) == job

    assert not is_done(sweep, replace(job, run=None))  # a ledger that does not tell
    trained(tmp_path / "0", B)
    assert sweep.run_of(job) is None and not is_done(sweep, job)
    trained(tmp_path / "0", A, "interrupted")
    assert sweep.run_of(job) and not is_done(sweep, job)
    for spoil in (
        lambda folder: folder.model.unlink(),
        lambda folder: folder.model.write_bytes(b"cut"),
        lambda folder: run_record.Manifest(A, {}).write(folder),
        lambda folder: run_record.Manifest(A, {"\0.safetensors": []}).write(folder),
        lambda folder: folder.manifest.write_text("{}"),
    ):
        trained(tmp_path / "0", A)
        assert is_done(sweep, job)
        spoil(RunFolder(tmp_path / "0"))
        assert not is_done(sweep, job)


@pytest.mark.parametrize("folder", ["/", "..", "a/../.."])
def test_a_folder_outside_of_the_sweep_is_not_read(folder, tmp_path):
    trained(tmp_path / "above", A)
    (tmp_path / "above" / "sweep").mkdir()
    job = Job("j", 0, (), State.DONE, folder=folder, run=A)

    assert ledger.Sweep(tmp_path / "above" / "sweep").run_of(job) is None


def test_a_ledger_that_is_not_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / LEDGER)

    assert "cannot be read" in message_of(errors.DataError, ledger.read, tmp_path)


def test_a_folder_behind_a_link_is_not_read(tmp_path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "0").symlink_to(tmp_path / "else")
    trained(tmp_path / "else", A)
    job = Job("j", 0, (), State.DONE, folder="0", run=A)

    assert ledger.Sweep(tmp_path / "sweep").run_of(job) is None
    assert ledger.Sweep(tmp_path).run_of(replace(job, folder="else")) is not None


def test_values_out_of_bounds_are_skipped_and_long_texts_truncated(tmp_path):
    (job,) = ledger.read(tmp_path).numbered([["lr=1"]])
    book = planned(tmp_path, job)
    for number in (-1, True, 10**400, ledger.MOST_JOBS):
        book.add("job", job=f"{number}"[:9], number=number, overrides=[])
    book.add("ended", job=job.identity, status="failed", reason="x" * 10**5, objective=10**400)
    book.close()
    with (tmp_path / LEDGER).open("a") as file:
        file.write(f'{{"event": "job", "job": "b", "number": 1, "x": "{"x" * 2**20}"}}\n')

    (recorded,) = ledger.read(tmp_path).jobs.values()

    assert recorded.objective is None and len(recorded.reason) == ledger.MOST_IN_TEXT


def test_a_ledger_with_too_many_jobs_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "MOST_JOBS", 3)
    planned(tmp_path, *(Job(f"{number}", 0, ()) for number in range(4))).close()

    assert "has more than 3 jobs" in message_of(errors.DataError, ledger.read, tmp_path)

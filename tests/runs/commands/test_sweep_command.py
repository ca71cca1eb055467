"""Sweeps in this process: where they may write, and which run in a job's folder is the job's."""

import shutil

import pytest
from in_process import called

from andiron.run_folder import LEDGER
from andiron.shell.training import train
from andiron.wings.runs import command as runs
from andiron.wings.sweep import ledger

SMALL = ("num_updates=2", "num_epochs=null", "validate_every=1", "model.hidden=[8]", "render=plain")
SWEEP = ("-m", *SMALL, "hydra.sweep.dir=sweep", "seed=1,2")
PLACES = {
    "a list of jobs": "multirun.yaml", "a log": "sweep.jsonl",
    "what a program printed": "output/0.txt",
}  # fmt: skip


def swept(*arguments):
    return called(train.main, *SWEEP, *arguments)


def statuses(folder):
    """How each job stands, by its number."""
    sweep = ledger.read(folder)
    return {job.number: sweep.current(job).status for job in sweep.jobs.values()}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A sweep of two jobs that are done."""
    root = tmp_path_factory.mktemp("done")
    ended = called(train.main, *SWEEP, cwd=root)
    assert (ended.code, ended.errors) == (0, "")
    return root / "sweep"


@pytest.fixture
def sweep(here, done):
    return shutil.copytree(done, here / "sweep")


@pytest.mark.parametrize("name", PLACES.values(), ids=PLACES)
def test_files_that_no_sweep_wrote_are_not_overwritten(here, name):
    mine = here / "sweep" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("hydra: mine\n")

    ended = swept()

    assert ended.code == 1
    assert f"{mine}: was not written by a sweep; " in ended.errors
    assert "move it away, or choose another sweep_name" in ended.errors
    assert [path for path in mine.parent.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "hydra: mine\n"


@pytest.mark.parametrize("launcher", ["andiron", "basic"])
@pytest.mark.parametrize("subdir", ["../${hydra.job.num}", "${hydra.sweep.dir}/../x", "/x", "."])
def test_a_job_folder_outside_of_the_sweep_is_refused(here, subdir, launcher):
    place = subdir.replace("/x", str(here / "x"), 1) if subdir == "/x" else subdir

    ended = swept(f"hydra.sweep.subdir='{place}'", f"hydra/launcher={launcher}")

    assert ended.code == 2
    assert "is not inside the folder of the sweep; give a folder in it for each" in ended.errors
    assert list(here.iterdir()) == []


def test_an_invalid_job_fails_alone_and_a_problem_of_all_before_any_starts(here):
    shared = swept("lr=-1")
    assert shared.code == 2 and "lr=-1: should be greater than 0" in shared.errors
    assert not (here / "sweep" / LEDGER).exists()

    alone = swept("lr=0.1,-1", "seed=1", "overwrite=true")
    assert alone.code == 1 and "lr=-1: should be greater than 0" in alone.errors
    assert statuses(here / "sweep") == {0: "done", 1: "failed"}


def test_a_sweep_inside_the_folder_of_a_run_is_refused(here):
    assert called(train.main, *SMALL, "hydra.run.dir=sweep").code == 0
    before = sorted((here / "sweep").rglob("*"))

    for place in ("sweep", "sweep/checkpoints/more"):
        ended = called(train.main, "-m", *SMALL, "seed=1,2", f"hydra.sweep.dir={place}")

        assert ended.code == 1
        assert f"{here / place}: is in the folder of a run, {here / 'sweep'}; " in ended.errors
    assert sorted((here / "sweep").rglob("*")) == before


def test_a_file_named_output_is_refused_by_its_name(sweep):
    shutil.rmtree(sweep / "output")
    (sweep / "output").write_text("mine")

    ended = swept("overwrite=true")

    assert ended.code == 1
    assert f"{sweep}/output: is a file, and a sweep makes a folder of that name" in ended.errors
    assert statuses(sweep) == {0: "done", 1: "done"}


def test_a_job_whose_output_cannot_be_written_fails_with_the_reason(sweep):
    shutil.rmtree(sweep / "1")
    (sweep / "output" / "1.txt").unlink()
    (sweep / "output" / "1.txt").mkdir()

    ended = swept()

    assert ended.code == 1
    assert f"{sweep}/output/1.txt cannot be written (Is a directory)" in ended.errors


@pytest.mark.parametrize("kept", [1, 2, 3, 5])
def test_jobs_missing_from_the_ledger_are_adopted_without_training(sweep, kept):
    path = sweep / LEDGER
    lines = path.read_text().splitlines(keepends=True)
    weights = [(sweep / job / "model.safetensors").stat().st_mtime_ns for job in "01"]
    path.write_text("".join(lines[:kept]) + lines[kept][:20])

    ended = swept()

    assert (ended.code, ended.errors) == (0, "")
    assert [(sweep / job / "model.safetensors").stat().st_mtime_ns for job in "01"] == weights
    assert statuses(sweep) == {0: "done", 1: "done"}


def test_another_run_in_the_folder_of_a_job_is_neither_ranked_nor_changed(sweep, here):
    for one, other in ("0", "away"), ("1", "0"), ("away", "1"):
        (sweep / one).rename(sweep / other)
    before = {path: path.read_bytes() for path in sweep.glob("[01]/*.json")}

    compared = called(runs.main, "compare", sweep)
    ended = swept()

    assert compared.code == 2 and "no job of the sweep is done and has metrics" in compared.errors
    assert statuses(sweep) == {0: "failed", 1: "failed"}
    assert ended.code == 1
    for job in (sweep / "0", sweep / "1"):
        assert f"{job}: holds a run that is not of this job; nothing" in ended.errors
    assert {path: path.read_bytes() for path in sweep.glob("[01]/*.json")} == before
    assert swept().code == 1  # and the ledger has not learned that it is the run of the job
    for one, other in ("0", "away"), ("1", "0"), ("away", "1"):
        (sweep / one).rename(sweep / other)
    assert swept().code == 0 and statuses(sweep) == {0: "done", 1: "done"}


def test_a_done_job_without_weights_is_not_ranked_and_is_repeated(sweep):
    weights = sweep / "1" / "model.safetensors"
    before = weights.read_bytes()
    weights.unlink()

    compared = called(runs.main, "compare", sweep)
    assert "of 2 jobs: 1 done, 1 missing" in compared.output

    ended = swept()

    assert (ended.code, weights.read_bytes()) == (0, before)
    assert "1 of 2 jobs are done already" in ended.output
    assert statuses(sweep) == {0: "done", 1: "done"}


def test_a_job_repeated_by_its_own_command_stays_done(sweep):
    (job,) = [value for value in ledger.read(sweep).jobs.values() if value.number == 1]
    own = (*job.overrides, "render=plain", f"hydra.run.dir={sweep / '1'}", "overwrite=true")
    again = called(train.main, *own)
    assert again.code == 0 and statuses(sweep)[1] == "missing"

    ended = swept()

    assert ended.code == 0 and statuses(sweep) == {0: "done", 1: "done"}


def test_a_warning_of_two_jobs_is_shown_once(here, caplog):
    rows = [f"{index},{index % 2},{('train', 'test')[index % 2]}" for index in range(20)]
    (here / "t.csv").write_text("\n".join(["x,y,part", *rows]))

    swept("data=csv", "data.path=t.csv", "data.target=y")

    jobs, texts = zip(*(text.split(": ", 1) for text in caplog.messages if text[:4] == "job "))
    of_parts, of_numbers = sorted(text.partition("column ")[2] for text in texts)
    assert of_parts.startswith("'part' says which part a row is in")
    assert of_numbers.startswith("'x' has another whole number in each row")
    assert {*jobs} <= {"job 0", "job 1"}


@pytest.mark.parametrize("command", ["list", "compare"])
def test_a_sweep_whose_jobs_all_failed_says_why(here, command):
    assert swept("lr=-1,-2", "seed=1").code == 1
    shown = called(runs.main, command, "sweep").errors
    assert "2 jobs have failed, such as job 0: lr=-1: should be greater than 0" in shown

"""A run folder belongs to one process, and its status is correct however the run ends."""

import errno
import json
import logging
import multiprocessing
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from runs_made import content, make_run

from andiron import errors
from andiron.disk import files, guarded_folders
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_files, run_record, status as run_status

log = logging.getLogger("andiron")


def status(path):
    return json.loads((path / "status.json").read_text())


def test_the_status_is_running_with_the_process_and_then_done(tmp_path):
    path = tmp_path / "new" / "run"
    with claim.claimed(RunFolder(path)):
        running = status(path)
    assert (running["status"], running["pid"]) == ("running", os.getpid())
    ended = status(path)
    assert (ended["status"], ended["reason"]) == ("done", None)
    assert running["started"] == ended["started"] <= ended["ended"]


def refused(claimed, words):
    """Enters a claim that is refused, so that nothing runs within it."""
    with pytest.raises(errors.RunFolderError, match=words), claimed:
        raise AssertionError("not reached")


@pytest.mark.parametrize(("error", "verdict", "reason"), [
    (errors.DataError("row 3 is empty"), "failed", "row 3 is empty"),
    (RuntimeError("boom"), "failed", "RuntimeError: boom"),
    (KeyboardInterrupt(), "interrupted", "KeyboardInterrupt"),
    (SystemExit(143), "interrupted", "SystemExit: 143"),
])  # fmt: skip
def test_the_error_that_ended_the_run_is_its_reason_and_is_raised(tmp_path, error, verdict, reason):
    with pytest.raises(type(error)), claim.claimed(RunFolder(tmp_path)) as begins:
        begins()
        raise error
    assert (status(tmp_path)["status"], status(tmp_path)["reason"]) == (verdict, reason)


def test_the_log_has_what_was_said_and_the_traceback(tmp_path):
    def breaks():
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError), claim.claimed(RunFolder(tmp_path)) as begins:
        begins()
        log.info("said %d", 7)
        breaks()
    log.info("said later")
    text = (tmp_path / "experiment.log").read_text()
    assert "INFO said 7\n" in text and "ERROR failed: RuntimeError: boom\n" in text
    assert "in breaks\n" in text and "said later" not in text


def test_a_folder_that_holds_a_run_is_refused_untouched(tmp_path):
    with claim.claimed(RunFolder(tmp_path)):
        (tmp_path / "metrics.jsonl").write_text("{}")
    before = content(tmp_path)
    words = "already holds a run; resume it with resume=.*, or give overwrite=true"
    refused(claim.claimed(RunFolder(tmp_path)), words)
    assert content(tmp_path) == before


def test_overwriting_removes_what_a_run_writes_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    make_run(run)
    foreign = [
        "notes.txt", "checkpoints/best/weights.pt", "tensorboard/notes.txt", "metrics.csv",
        "tensorboard/mine/events.out.tfevents.1.host.2.0", "tensorboard/events.out.tfevents.1.h.2",
        "tensorboard/train/features.tsv", "ranks/1.log", "ranks/2024-notes.log",
        "profile/updates-3-5.json", "checkpoints/my-favourite/state.json",
    ]  # fmt: skip
    shutil.copytree(run / "checkpoints" / "step-1", run / "checkpoints" / "my-favourite")
    for name in foreign:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("mine")
    foreign.append("checkpoints/my-favourite/manifest.json")
    with claim.claimed(RunFolder(run), overwrite=True) as begins:
        before = {path.name for path in run.iterdir()}
        begins()
        after = {path.relative_to(run).as_posix() for path in content(run)}
    assert before == {"status.json", "experiment.log", "manifest.json"}
    assert after == before | {*foreign}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_cannot_be_renamed_is_refused_untouched(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    make_run(folder.path)
    before = content(folder.path)
    with monkeypatch.context() as patch:
        patch.chdir(folder.path)
        refused(claim.claimed(folder, overwrite=True), r"is the working directory\); .*runs rm")
    busy = OSError(errno.EBUSY, "Device or resource busy")  # a mount point
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", Mock(side_effect=busy))
        refused(claim.claimed(folder, overwrite=True), r"cannot be renamed, .*busy\); choose")
    (tmp_path / ".run.replaced").touch()
    refused(claim.claimed(folder, overwrite=True), "run.replaced is in the way; move it elsewhere")
    assert content(folder.path) == before


def test_a_run_behind_a_link_is_replaced_at_its_place(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "run"
    link.symlink_to(tmp_path / "disk" / "run")
    make_run(tmp_path / "disk" / "run")
    with claim.claimed(RunFolder(link), overwrite=True) as begins:
        begins()
    assert link.is_symlink() and not RunFolder(link).summary.exists()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["run"]


def test_overwriting_removes_traces_and_points_of_the_projector_tab(tmp_path):
    run = RunFolder(tmp_path / "run")
    left = [run.profile / "updates-3-5.json", run.tensorboard / "valid" / "features.tsv"]
    with claim.claimed(run):
        for path in left:
            guarded_folders.list_file(path)
            path.parent.mkdir(parents=True)
            path.write_text("the earlier run's")
    with claim.claimed(run, overwrite=True) as begins:
        begins()
    assert not any(path.exists() for path in left)


def test_overwriting_removes_what_a_killed_process_left_half_written(tmp_path):
    with claim.claimed(RunFolder(tmp_path)) as begins:
        begins()
    checkpoints = tmp_path / "checkpoints"
    for name in ("checkpoints/.step-0.0123abcd.partial", "nonfinite/.update-3.0123abcd.partial"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "model.safetensors").write_text("half")
    (checkpoints / ".latest.json.0123abcd.partial").write_text("half")
    (tmp_path / ".config.json.0123abcd.partial").write_text("half")
    other = checkpoints / ".step-0.0123abcd.partial" / "notes.txt"
    other.write_text("mine")

    with claim.claimed(RunFolder(tmp_path), overwrite=True) as begins:
        begins()
    left = [path for path in tmp_path.rglob("*") if "partial" in str(path) and path.is_file()]
    assert left == [other]


def test_a_replaced_run_is_put_back_if_the_new_one_does_not_begin(tmp_path):
    run = tmp_path / "run"
    make_run(run)
    before = content(run)
    with pytest.raises(errors.DataError), claim.claimed(RunFolder(run), overwrite=True):
        raise errors.DataError("no such file")
    assert content(run) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["notes.txt", "config.json", "checkpoints/best/weights.pt"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_files_of_other_programs_is_refused_untouched(tmp_path, name, overwrite):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    refused(claim.claimed(RunFolder(tmp_path), overwrite=overwrite), "files that no run wrote")
    assert [value for value in tmp_path.rglob("*") if value.is_file()] == [path]


@pytest.mark.parametrize("name", ["metrics.jsonl", "experiment.log", "checkpoints", ".hydra"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    run, other = tmp_path / "run", tmp_path / "other"
    make_run(run)
    (other / name).mkdir(parents=True)
    entry = run / name
    shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
    entry.symlink_to(other / name)
    refused(claim.resumed(RunFolder(run)), "a link")
    refused(claim.claimed(RunFolder(run), overwrite=True), "a link")
    assert entry.is_symlink() and (other / name).is_dir()


def test_a_folder_that_is_replaced_under_the_run_is_not_written_to(tmp_path):
    run = tmp_path / "run"
    with claim.claimed(RunFolder(run)):
        run.rename(tmp_path / "moved")
        run.mkdir()
        with pytest.raises(OSError, match="another folder took the place"):
            files.write_json(run / "summary.json", {})
    assert not (run / "summary.json").exists()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_another_run_that_took_the_folders_place_gets_nothing(tmp_path, begun, overwrite):
    """No file, no line in its log, and none of its files is removed."""
    run, other = tmp_path / "run", tmp_path / "other"
    make_run(other)
    if overwrite:
        make_run(run)
    before = {path.relative_to(other): text for path, text in content(other).items()}
    with pytest.raises(errors.ConfigError):
        with claim.claimed(RunFolder(run), overwrite=overwrite) as begins:
            if begun:
                begins()
            run.rename(tmp_path / "moved")
            other.rename(run)
            log.info("a line of the run that was moved away")
            raise errors.ConfigError(["lr=-1: no"])
    assert {path.relative_to(run): text for path, text in content(run).items()} == before


@pytest.mark.parametrize(("name", "damage"), [
    ("config.json", None), ("model.safetensors", None), (".hydra/config.yaml", None),
    ("manifest.json", b""),
])  # fmt: skip
@pytest.mark.parametrize("resumes", [False, True])
def test_files_that_the_manifest_does_not_list_are_not_replaced(tmp_path, name, damage, resumes):
    """Another tool's file under the name of a run's own, or a manifest that lists nothing."""
    folder = RunFolder(tmp_path)
    run_record.begin(folder)
    folder.metrics.write_text("grown")
    path = folder.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"another tool's" if damage is None else damage)
    before = content(tmp_path)
    remedy = "move them elsewhere" if damage is None else "restore its manifest.json, which is miss"
    claimed = claim.resumed(folder) if resumes else claim.claimed(folder, overwrite=True)
    refused(claimed, f"holds files that no run wrote.*{remedy}")
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["checkpoints/step-3", "tensorboard"])
def test_a_run_does_not_lie_among_the_files_of_another(tmp_path, name):
    make_run(tmp_path)
    before = content(tmp_path)
    refused(claim.claimed(RunFolder(tmp_path / name)), "is among the files of the run in")
    assert content(tmp_path) == before


def test_runs_that_lie_in_the_folder_of_a_replaced_run_come_back(tmp_path):
    """In a folder of the user's own, or moved among the files of the run."""
    inner = [tmp_path / "run" / "mine" / "run", tmp_path / "run" / "checkpoints" / "step-9"]
    for path in (tmp_path / "run", *inner):
        make_run(path)
    before = list(map(content, inner))
    with claim.claimed(RunFolder(tmp_path / "run"), overwrite=True) as begins:
        begins()
    assert list(map(content, inner)) == before


def test_the_number_of_a_killed_process_may_be_anothers_by_now(tmp_path):
    run_record.begin(RunFolder(tmp_path))
    (tmp_path / "status.json").write_text(json.dumps({"status": "running", "pid": os.getppid()}))
    with claim.claimed(RunFolder(tmp_path), overwrite=True):
        assert status(tmp_path)["pid"] == os.getpid()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_folder_with_a_damaged_status_can_be_overwritten(tmp_path, text):
    run_record.begin(RunFolder(tmp_path))
    (tmp_path / "status.json").write_text(text)

    with claim.claimed(RunFolder(tmp_path), overwrite=True):
        assert status(tmp_path)["status"] == "running"


ERRORS = [
    errors.ConfigError(["lr=-1: no"]), errors.DataError("row 3 is empty"),
    errors.ExhaustedError("out of memory"), errors.Interrupted("SIGINT"),
    ZeroDivisionError("in a constructor"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_nothing_is_left_by_a_run_that_never_trained(tmp_path, error):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(type(error)), claim.claimed(folder):
        run_record.write(folder, {folder.config: b"{}"})
        raise error
    assert not (tmp_path / "run").exists()

    with pytest.raises(type(error)), claim.claimed(folder):
        (folder.path / "notes.txt").touch()
        raise error
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def left_by_a_kill(folder, moved):
    """The files of a run that was killed before its first update."""
    with claim.claimed(RunFolder(folder)):
        run_record.write(RunFolder(folder), {RunFolder(folder).config: b"{}"})
        shutil.copytree(folder, moved)
    return moved


def test_a_run_that_was_killed_before_it_trained_is_replaced_in_place(tmp_path, monkeypatch):
    killed = left_by_a_kill(tmp_path / "run", tmp_path / "killed")
    monkeypatch.chdir(killed)  # which cannot be renamed, as a mount point cannot
    before = run_record.identity(RunFolder(killed))
    assert run_status.is_untrained(RunFolder(killed))
    with claim.claimed(RunFolder(killed)) as begins:
        assert not RunFolder(killed).config.exists()
        begins()
    assert run_record.identity(RunFolder(killed)) != before
    assert not run_status.is_untrained(RunFolder(killed))


@pytest.mark.parametrize("error", [errors.PeerError("rank 1"), errors.NonFiniteError("NaN")])
def test_logs_of_other_ranks_and_a_saved_update_stay_until_the_next_command(tmp_path, error):
    with pytest.raises(type(error)), claim.claimed(RunFolder(tmp_path)):
        raise error
    assert status(tmp_path)["status"] == "failed"
    with claim.claimed(RunFolder(tmp_path)) as begins:
        begins()
    assert status(tmp_path)["status"] == "done"


def test_files_of_others_in_the_folder_of_a_killed_run_are_not_removed(tmp_path):
    killed = left_by_a_kill(tmp_path / "run", tmp_path / "killed")
    (killed / "checkpoints" / "mine").mkdir(parents=True)
    (killed / "checkpoints" / "mine" / "weights.pt").write_text("mine")
    with claim.claimed(RunFolder(killed)) as begins:
        begins()
    assert (killed / "checkpoints" / "mine" / "weights.pt").read_text() == "mine"


def test_a_run_that_replaced_none_is_not_settled_nor_one_behind_a_link(tmp_path):
    killed = left_by_a_kill(tmp_path / "run", tmp_path / "killed")
    other = left_by_a_kill(tmp_path / "second", tmp_path / "other")
    (tmp_path / ".killed.replaced").symlink_to(other)
    for folder in (killed, other):
        run_files.settle(RunFolder(folder))
    assert RunFolder(killed).config.exists() and RunFolder(other).config.exists()


@pytest.mark.parametrize("name", ["checkpoints/step-1", "summary.json"])
def test_a_run_with_results_is_never_taken_for_one_that_did_not_train(tmp_path, name):
    killed = left_by_a_kill(tmp_path / "run", tmp_path / "killed")
    (killed / name).mkdir(parents=True)
    refused(claim.claimed(RunFolder(killed)), "already holds")


def test_a_path_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    words = r"file/run cannot be written \(Not a directory\); choose another place"
    refused(claim.claimed(RunFolder(tmp_path / "file" / "run")), words)


def _race(paths, start, winners):
    for path in paths:
        start.wait(timeout=30)
        try:
            with claim.claimed(RunFolder(path)):
                winners.put((path.name, os.getpid()))
        except errors.RunFolderError:
            winners.put((path.name, None))


def test_of_four_processes_that_claim_a_folder_one_gets_it(tmp_path):
    fork = multiprocessing.get_context("fork")
    start, winners = fork.Barrier(4), fork.Queue()
    paths = [tmp_path / str(number) for number in range(100)]
    processes = [fork.Process(target=_race, args=(paths, start, winners)) for _ in range(4)]
    for process in processes:
        process.start()
    result = [winners.get(timeout=60) for _ in processes for _ in paths]
    for process in processes:
        process.join(timeout=30)
    winners.close()
    winners.join_thread()
    won = sorted((int(name), pid) for name, pid in result if pid)
    assert won == [(int(path.name), status(path)["pid"]) for path in paths]

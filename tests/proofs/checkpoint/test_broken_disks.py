"""Full, read-only and vanished folders, killed processes: nothing whole is lost, saving resumes."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints_made import big, checkpoint, equal, names, save, saved
from small_disks import mounted

from andiron.checkpoint import FileCheckpointer, KeepLast, checkpointer, load, newest_whole
from andiron.checkpoint.on_disk import manifest
from andiron.disk import files

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])


@pytest.fixture(autouse=True)
def every_write_at_once(monkeypatch):
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 0.0)


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", mebibytes=10) as folder:
        yield folder


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_full_disk_loses_nothing_whole_and_the_next_save_succeeds(small_disk, caplog):
    saver = FileCheckpointer(small_disk / "checkpoints", KeepLast(2))
    saver.save(10, big(10, megabytes=3), {})
    assert saver.wait()
    (small_disk / "ballast").write_bytes(bytes(5 * 2**20))
    for updates in (20, 30):
        saver.save(updates, big(updates, megabytes=3), {})
        assert not saver.wait()
        assert names(small_disk / "checkpoints") == {"step-10"}
        assert equal(newest_whole(small_disk / "checkpoints")[1], big(10, megabytes=3))
    said = warnings(caplog)
    assert said and set(said) == {
        f"checkpoint step-{updates} COULD NOT BE WRITTEN in {small_disk / 'checkpoints'} "
        "(No space left on device); the newest "
        "intact one there is step-10. Training continues, and its newest state is written as soon "
        "as possible: free space there, or make the folder writable"
        for updates in (20, 30)
    }
    (small_disk / "ballast").unlink()
    saver.save(40, big(40, megabytes=3), {})
    assert saver.close()
    assert names(small_disk / "checkpoints") == {"step-10", "step-40"}
    assert equal(load(small_disk / "checkpoints" / "step-40"), big(40, megabytes=3))


def test_what_did_not_fit_is_written_by_closing_if_there_is_space_then(small_disk):
    saver = FileCheckpointer(small_disk, KeepLast(2))
    (small_disk / "ballast").write_bytes(bytes(8 * 2**20))
    saver.save(10, big(10, megabytes=3), {})
    assert not saver.wait()
    (small_disk / "ballast").unlink()
    assert saver.close()
    assert names(small_disk) == {"step-10"}


def test_a_run_that_ends_on_a_full_disk_says_what_is_lost(small_disk, caplog):
    saver = FileCheckpointer(small_disk, KeepLast(2))
    saver.save(10, big(10, megabytes=20), {})
    assert not saver.close()
    (words,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert words == f"{small_disk}: not written, and lost when this process ends: step-10"
    assert names(small_disk) == set()


def test_a_disk_that_only_reads_is_reported_and_what_is_there_stays(small_disk, caplog):
    saver = saved(small_disk, KeepLast(1), 10)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    save(saver, 20)
    assert not saver.wait()
    assert "(Read-only file system); the newest intact one there is step-10." in caplog.text
    (small_disk / "step-10" / "model.safetensors").stat()
    assert equal(newest_whole(small_disk)[1], checkpoint(10))
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    save(saver, 30)
    assert saver.close()
    assert names(small_disk) == {"step-30"}


def test_a_vanished_folder_is_made_again(tmp_path, caplog):
    saver = saved(tmp_path / "run" / "checkpoints", KeepLast(2), 10)
    shutil.rmtree(tmp_path / "run")
    save(saver, 20)
    assert saver.close()
    assert names(tmp_path / "run" / "checkpoints") == {"step-20"}
    assert warnings(caplog) == [
        f"{tmp_path / 'run' / 'checkpoints'}: checkpoints were removed by somebody else: step-10"
    ]
    again = FileCheckpointer(tmp_path / "run" / "checkpoints", KeepLast(2))
    again.adopt(*newest_whole(tmp_path / "run" / "checkpoints"))
    assert [saved.updates for saved in again.saved] == [20]
    again.close()


def test_a_file_where_the_folder_should_be_is_reported_until_it_is_gone(tmp_path, caplog):
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    saver = FileCheckpointer(tmp_path / "checkpoints", KeepLast(1))
    save(saver, 10)
    assert not saver.wait()
    assert "(Not a directory); the newest intact one there is none." in caplog.text
    (tmp_path / "checkpoints").unlink()
    save(saver, 20)
    assert saver.close()
    assert names(tmp_path / "checkpoints") == {"step-20"}


def test_a_foreign_folder_with_a_checkpoints_name_is_never_touched(tmp_path, caplog):
    saver = saved(tmp_path, KeepLast(1), 0)
    (tmp_path / "step-10").mkdir()
    (tmp_path / "step-10" / "precious").write_text("not a run's")
    save(saver, 10)
    assert not saver.wait()
    assert (
        "checkpoint step-10 COULD NOT BE WRITTEN" in caplog.text
        and "(Directory not empty)" in caplog.text
    )
    save(saver, 20)
    assert saver.close()
    assert names(tmp_path) == {"step-10", "step-20"}
    assert (tmp_path / "step-10" / "precious").read_text() == "not a run's"


def test_while_writing_fails_one_copy_is_held_and_not_every_kept_one(tmp_path):
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    saver = FileCheckpointer(tmp_path / "checkpoints", KeepLast(5))
    for updates in (10, 20, 30, 40):
        save(saver, updates)
        assert not saver.wait()
        assert [saved.updates for saved in saver.saved] == [updates] and list(saver._copies) == [
            f"step-{updates}"
        ]
    (tmp_path / "checkpoints").unlink()
    save(saver, 50)
    save(saver, 60)
    assert saver.close()
    assert "step-60" in names(tmp_path / "checkpoints") and "step-10" not in names(
        tmp_path / "checkpoints"
    )


def test_one_that_was_lost_gives_its_place_back_to_what_is_on_the_disk(tmp_path, monkeypatch):
    def best(saved):
        return {min(saved, key=lambda one: one.values["valid"]["loss"]).name, saved[-1].name}

    saver = FileCheckpointer(tmp_path, best)
    save(saver, 10, loss=0.5)
    assert saver.wait()
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_folder", failing)
        save(saver, 20, loss=0.1)
        assert not saver.wait()
        save(saver, 30, loss=0.9)  # takes the place of 20 in memory
        assert not saver.wait()
    assert saver.close()
    assert names(tmp_path) == {"step-10", "step-30"}
    assert [value["name"] for value in load(tmp_path / "step-30").state["checkpoints"]] == [
        "step-10", "step-30",
    ]  # fmt: skip


def failing(path, contents):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("number", range(1, 9))
def test_whichever_sync_fails_no_folder_is_left_and_the_next_is_whole(
    tmp_path, monkeypatch, number
):
    fsync, calls = os.fsync, []

    def fail_from(descriptor):
        calls.append(descriptor)
        if len(calls) >= number:
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    saver = FileCheckpointer(tmp_path, KeepLast(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_from)
        save(saver, 10)
        # four files, the names in the folder, the folder's name: then it is whole
        assert saver.wait() == (number > 6)
        assert names(tmp_path) == ({"step-10"} if number > 6 else set())
    save(saver, 20)
    assert saver.close()
    assert names(tmp_path) == {"step-20"}


def test_what_reads_back_otherwise_is_set_aside_before_anything_older_goes(
    tmp_path, monkeypatch, caplog
):
    saver = saved(tmp_path, KeepLast(1), 10)
    write_folder = files.write_folder

    def badly(path, contents):
        write_folder(path, contents)
        with (path / "model.safetensors").open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x01")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_folder", badly)
        save(saver, 20)
        assert not saver.wait()
    assert {"step-10", "step-20.damaged"} <= names(tmp_path) and "step-20" not in names(tmp_path)
    assert (
        "(reading it back gives something else: " in caplog.text
        and "the newest intact one there is step-10" in caplog.text
    )
    assert saver.close()  # tried again
    assert equal(load(tmp_path / "step-20"), checkpoint(20)) and "step-10" not in names(tmp_path)


def test_reading_back_goes_past_the_systems_memory_of_the_file(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *how: asked.append(how[1:]), raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    saver.close()
    assert asked == [(0, 0, 4)] * 3
    manifest.verified(tmp_path / "step-10")
    assert len(asked) == 3


def test_what_cannot_be_removed_is_tried_again_after_the_next_write(tmp_path, monkeypatch, caplog):
    def refuse(path, which):
        raise PermissionError(errno.EACCES, "Permission denied")

    saver = FileCheckpointer(tmp_path, KeepLast(1))
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove_folder", refuse)
        for updates in (10, 20):
            save(saver, updates)
            assert saver.wait()
    assert names(tmp_path) == {"step-10", "step-20"}
    assert "checkpoint step-10 is no longer kept but was not removed: " in caplog.text
    save(saver, 30)
    assert saver.close()
    assert names(tmp_path) == {"step-30"}


def killed(folder, rounds, seed, kind):
    """Reports of the folders that killed processes left, one after the other."""
    environment = {**os.environ, "PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable, str(Path(__file__).with_name("killed.py")), str(folder), str(rounds),
        str(seed), kind,
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("kind", ["big", "frozen"])
def test_after_any_kill_the_newest_checkpoint_is_whole_and_work_continues(tmp_path, kind):
    rounds = killed(tmp_path / "checkpoints", 20, 5, kind)
    assert len(rounds) == 20 and all(value["whole"] for value in rounds)
    updates = [value["updates"] for value in rounds]
    assert updates == sorted(updates) and updates[-1] > updates[0]
    again = FileCheckpointer(tmp_path / "checkpoints", KeepLast(2))
    again.adopt(*newest_whole(tmp_path / "checkpoints"))
    again.save(10**6, big(10**6, megabytes=1), {})
    assert again.close()
    # however many half written folders the kills left, the next process removed all of them
    assert names(tmp_path / "checkpoints") == {f"step-{updates[-1]}", "step-1000000"}

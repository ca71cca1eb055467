"""The mirror of a run: whole checkpoints there at every moment, and the same bits from them.

The commands of docs/mirror.md, at `file://` and `memory://` in place of an object store.
"""

import json
import logging
import shutil
import threading
from pathlib import Path

import fsspec
import pytest
from checkpoints_made import checkpoint, frozen
from fsspec.implementations.memory import MemoryFileSystem
from in_process import called
from stops_at import stopping
from waiting import until

from andiron import errors
from andiron.__main__ import main as andiron
from andiron.checkpoint import FileCheckpointer, KeepLast
from andiron.checkpoint.on_disk import checkpoint_files, manifest
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron.shell.training import train
from andiron_lab import mirror
from andiron_lab.ask import bit_comparison
from andiron_lab.mirror import uploads
from andiron_lab.mirror.remote_run import RemoteRun
from andiron_lab.mirror.run_copy import RefusedError, RunCopy

RUN = ("model.hidden=[8]", "device=cpu", "render=plain", "averages=ema")


class Broken(MemoryFileSystem):
    """A store whose call number `at` fails, before or after its work; then none until mended."""

    protocol = "broken"
    store, pseudo_dirs = {}, [""]
    calls, at, after = 0, None, False

    @classmethod
    def until_call(cls, at, after=False):
        cls.calls, cls.at, cls.after = 0, at, after

    def __getattribute__(self, name):
        method = super().__getattribute__(name)
        if name not in ("pipe_file", "put_file", "cp_file", "rm_file", "rm", "find", "cat_file"):
            return method

        def call(*args, **kwargs):
            kind = type(self)
            kind.calls += 1
            number = kind.calls
            if kind.at is not None and (number > kind.at or number == kind.at and not kind.after):
                raise ConnectionError("gone")
            answer = method(*args, **kwargs)
            if number == kind.at:
                raise ConnectionError("gone")
            return answer

        return call


fsspec.register_implementation("broken", Broken, clobber=True)


@pytest.fixture(autouse=True)
def emptied(monkeypatch):
    """Empty stores in memory, and short pauses."""
    monkeypatch.setattr(uploads, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(uploads, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(uploads, "LONGEST_PAUSE", 0.05)
    for kind in (MemoryFileSystem, Broken):
        kind.store.clear()
        kind.pseudo_dirs[:] = [""]
    Broken.until_call(None)


def new_run(path):
    """A folder with the record of a run, and its checkpointer."""
    path.mkdir()
    folder = RunFolder(path)
    run = run_record.begin(folder).run
    run_record.write(folder, {folder.config: b"{}"})
    folder.metrics.write_text('{"updates": 1}\n')
    return folder, FileCheckpointer(folder.checkpoints, KeepLast(2), run=run)


def save(saver, *updates):
    for update in updates:
        saver.save(update, checkpoint(update), {})
        assert saver.wait()


def copy_of(folder, address="broken://far"):
    return RunCopy(folder, RemoteRun(address, "checkpoint.mirror"), "checkpoint.mirror")


def brought_up_to_date(copy):
    copy.update()
    while copy.missing():
        copy.update()


def whole_there(folder, address="broken://far"):
    """The checkpoints with a manifest there; each has all its files, and the bytes of the run's."""
    remote, names = RemoteRun(address, "address"), []
    for name in remote.steps():
        if remote.manifest(name) is None:
            continue
        names.append(name)
        listed = json.loads(remote.manifest(name))["files"]
        sizes = remote.sizes(name)
        assert all(sizes[file] == entry["bytes"] for file, entry in listed.items()), name
        assert {"record/manifest.json", "record/config.json", "record/metrics.jsonl"} < {*sizes}
    return names


def test_what_is_there_follows_the_folder_and_comes_back_with_the_same_bytes(tmp_path):
    folder, saver = new_run(tmp_path / "run")
    save(saver, 10, 20)
    copy = copy_of(folder)
    copy.update()
    assert whole_there(folder) == ["step-20"]  # the newest first
    brought_up_to_date(copy)
    assert whole_there(folder) == ["step-10", "step-20"]
    save(saver, 30)
    brought_up_to_date(copy)
    assert whole_there(folder) == ["step-20", "step-30"]
    saver.turn_back(20)
    copy.update()
    assert whole_there(folder) == ["step-20"]
    save(saver, 30)
    brought_up_to_date(copy)

    back = RunFolder(mirror.fetched("broken://far", tmp_path / "back"))
    assert run_record.identity(back) == run_record.identity(folder)
    assert run_record.changed(back) == []
    for name in ("step-20", "step-30"):
        files = manifest.verified(back.checkpoints / name).entries
        for file in (*files, "manifest.json"):
            there, here = (place.checkpoints / name / file for place in (back, folder))
            assert there.read_bytes() == here.read_bytes()


@pytest.mark.parametrize("after", [False, True])
def test_a_cut_at_any_call_leaves_no_manifest_without_its_files(tmp_path, after):
    folder, saver = new_run(tmp_path / "run")
    save(saver, 10, 20)
    brought_up_to_date(copy_of(folder))
    save(saver, 30)
    begin = dict(Broken.store)
    Broken.until_call(None)
    brought_up_to_date(copy_of(folder))
    calls = Broken.calls
    assert calls > 20
    for at in range(1, calls + 1):
        Broken.store.clear()
        Broken.store.update(begin)
        Broken.until_call(at, after)
        with pytest.raises(ConnectionError):
            brought_up_to_date(copy_of(folder))
        Broken.until_call(None)
        assert {*whole_there(folder)} & {"step-20", "step-30"}, at
        brought_up_to_date(copy_of(folder))  # of the next process
        assert whole_there(folder) == ["step-20", "step-30"]
        assert RemoteRun("broken://far", "a").steps() == ["step-20", "step-30"]
    assert [path.name for path in folder.checkpoints.iterdir() if path.name[0] == "."] == []


def test_checkpoints_whose_manifests_cannot_be_read_now_stay_there(tmp_path, monkeypatch):
    folder, saver = new_run(tmp_path / "run")
    save(saver, 10, 20)
    brought_up_to_date(copy_of(folder))

    class FlexibleChecksumError(Exception):
        """A checksum of botocore that differs, of a store that counts otherwise."""

    def read(*args, **kwargs):
        raise FlexibleChecksumError

    with monkeypatch.context() as patch:
        patch.setattr(Broken, "cat_file", read)
        with pytest.raises((FileExistsError, errors.DataError)):
            copy_of(folder).update()
    assert whole_there(folder) == ["step-10", "step-20"]


def test_pruning_does_not_take_away_what_is_uploaded(tmp_path, monkeypatch):
    folder, saver = new_run(tmp_path / "run")
    save(saver, 10)
    original, copy = RemoteRun.upload, copy_of(folder)

    def slow(self, file, name):
        if "step-10" in name and not (folder.checkpoints / "step-30").exists():
            save(saver, 20, 30)
            assert not (folder.checkpoints / "step-10").exists()
        original(self, file, name)

    monkeypatch.setattr(RemoteRun, "upload", slow)
    copy.update()
    monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(OSError("no links")))
    brought_up_to_date(copy)
    assert whole_there(folder) == ["step-20", "step-30"]


def test_a_frozen_file_is_sent_once(tmp_path, monkeypatch):
    folder, saver = new_run(tmp_path / "run")
    sent, original = [], RemoteRun.upload
    monkeypatch.setattr(
        RemoteRun, "upload", lambda self, *args: (sent.append(args[1]), original(self, *args))
    )
    copy = copy_of(folder)
    for updates in (10, 20, 30):
        saver.save(updates, frozen(updates, megabytes=1), {})
        assert saver.wait()
        brought_up_to_date(copy)
    assert [name for name in sent if "frozen" in name] == ["step-10/frozen.safetensors"]
    back = mirror.fetched("broken://far", tmp_path / "back")
    checkpoint_files.load(back / "checkpoints" / "step-30")


def test_an_address_has_one_run_of_one_process_and_no_older_state(tmp_path):
    folder, saver = new_run(tmp_path / "run")
    save(saver, 10, 20)
    copy = copy_of(folder)
    brought_up_to_date(copy)
    other, other_saver = new_run(tmp_path / "other")
    save(other_saver, 10)
    with pytest.raises(RefusedError, match="another run.*checkpoint.mirror=null"):
        copy_of(other).update()

    back = RunFolder(mirror.fetched("broken://far", tmp_path / "back"))
    elsewhere = copy_of(back)
    elsewhere.update()
    save(saver, 30)
    with pytest.raises(RefusedError, match="another process mirrors there now"):
        copy.update()
    shutil.rmtree(back.checkpoints / "step-20")
    with pytest.raises(RefusedError, match="has step-20 .*resume=broken://far trains on"):
        copy_of(back).update()
    assert whole_there(folder) == ["step-10", "step-20"]


def test_a_store_that_is_away_costs_training_nothing_but_a_warning(tmp_path, caplog):
    caplog.set_level(logging.INFO, "andiron")
    folder, saver = new_run(tmp_path / "run")
    Broken.until_call(0)
    before = threading.active_count()
    with mirror.mirrored(folder.path, "broken://far", wait=60):
        for updates in range(10, 60, 10):
            save(saver, updates)
            Broken.calls = 0
            until(lambda: Broken.calls)
        Broken.until_call(None)
    assert threading.active_count() <= before + 1  # the checkpointer's
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1 and "ConnectionError: gone" in warnings[0].getMessage()
    assert "can be written again" in caplog.text
    assert whole_there(folder) == ["step-40", "step-50"]
    noted = json.loads(folder.status.read_text())["mirrored"]
    assert noted == {"updates": 50, "behind": 0, "error": None}


def test_the_end_says_what_is_missing(tmp_path, caplog):
    folder, saver = new_run(tmp_path / "run")
    Broken.until_call(0)
    with mirror.mirrored(folder.path, "broken://me@far", wait=0.1):
        save(saver, 10)
    last = caplog.records[-1].getMessage()
    assert last.startswith("broken://far: step-10 missing there (ConnectionError: gone)")
    noted = json.loads(folder.status.read_text())["mirrored"]
    assert noted == {"updates": 0, "behind": 10, "error": "ConnectionError: gone"}


@pytest.mark.parametrize(
    "address, words",
    [
        ("s3://key:hidden@bucket/mine", "has a password or a query"),
        ("memory://far?token=hidden", "has a password or a query"),
        ("/mnt/far", "is not an address; give one with its protocol"),
        ("nothing://far", "Protocol not known: nothing"),
    ],
)
def test_an_unusable_address_is_refused_before_there_is_a_record(here, address, words):
    ended = called(train.main, *RUN, f'checkpoint.mirror="{address}"', "hydra.run.dir=run")
    assert ended.code and words in ended.errors
    assert "hidden" not in ended.output + ended.errors and [*here.rglob("*.json")] == []
    if "://" in address:
        ended = called(train.main, f'resume="{address}"')
        assert ended.code and words in ended.errors and "hidden" not in ended.errors


def test_a_run_resumed_elsewhere_has_the_same_bits_and_best(here):
    own = (*RUN, "num_epochs=5", "lr=0.02")
    assert called(train.main, *own, "hydra.run.dir=whole").code == 0
    far = f"file://{here}/far"
    mirrored = ("num_epochs=5", "lr=0.02", f"checkpoint.mirror={far}")
    with stopping(60):
        assert called(train.main, *RUN, *mirrored, "hydra.run.dir=first").code
    shutil.rmtree("first")

    ended = called(train.main, f"resume={far}", "hydra.run.dir=second")
    assert ended.code == 0, ended.errors
    differences = bit_comparison.compare(here / "whole", here / "second")
    others = [str(entry) for entry in differences if not entry.where.startswith("tensorboard")]
    assert others == []
    last = json.loads(Path("second/config.json").read_text())["checkpoint"]["mirror"]
    assert last == far and RemoteRun(far, "a").steps()[-1] == "step-105"
    ended = called(andiron, "evaluate", far, "--weights", "best")
    assert ended.code == 0, ended.errors
    forked = (f"fork_from={far}@latest", "num_epochs=6", "checkpoint.mirror=null")
    ended = called(train.main, *forked, "hydra.run.dir=fork")
    assert ended.code == 0 and "forked from" in ended.output, ended.errors
    ended = called(train.main, *RUN, "num_epochs=1", f"start_from={far}", "hydra.run.dir=third")
    assert ended.code == 0 and "weights from" in ended.output, ended.errors
    assert json.loads(Path("third/config.json").read_text())["start_from"] == far


def test_only_the_user_names_where_checkpoints_are_sent(here):
    far, other = f"file://{here}/far", f"file://{here}/other"
    ended = called(train.main, *RUN, "num_epochs=2", f"checkpoint.mirror={far}", "hydra.run.dir=a")
    assert ended.code == 0
    for command in (["recheck", "a"], ["rerun", "a", "--into", "again"], ["evaluate", "a"]):
        ended = called(andiron, *command)
        assert ended.code == 0, (command, ended.errors)
    for options in (["fork_from=a@42", "num_epochs=3"], ["resume=a", "num_epochs=3"]):
        ended = called(train.main, *options)
        assert ended.code and f"give checkpoint.mirror={far} here" in ended.errors, ended.errors
        given = [*options, f"checkpoint.mirror={other}"]
        assert called(train.main, *given).code == 0
        shutil.rmtree("other")
    ended = called(train.main, *RUN, f"checkpoint.mirror={far}", "hydra.run.dir=b")
    assert ended.code and "has the checkpoints of another run" in ended.errors
    assert not Path("b").exists()

"""Checkpoints on the disk: whole or not there, copied when saved, pruned as decided, and read back as they were."""

import errno
import hashlib
import json
import os
import time

import pytest
import safetensors.torch
import torch

from andiron import errors, files
from andiron.checkpoint import Checkpoint, FileCheckpointer, KeepLast, checkpointer, last_and_best, load

FILES = {"manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"}
LAST_TWO_AND_BEST = last_and_best(last=2, metric="loss", split="valid", direction="lowest")


@pytest.fixture(autouse=True)
def every_write_at_once(monkeypatch):
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 0.0)


@pytest.fixture
def rarely(monkeypatch):
    """Only the first write is due during a test."""
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 3600.0)


@pytest.fixture
def written(monkeypatch):
    """The names of all folders that are ever written."""
    names, write_folder = [], files.write_folder

    def write_and_note(path, contents):
        write_folder(path, contents)
        names.append(path.name)

    monkeypatch.setattr(files, "write_folder", write_and_note)
    return names


def checkpoint(value):
    model = {"network.weight": torch.full((3, 2), float(value)), "network.steps": torch.tensor(7)}
    return Checkpoint(model, {"network.weight/exp_avg": torch.full((3, 2), value / 8)}, {"updates": value, "epoch": 1})


def save(saver, updates, *, loss=0.5):
    saver.save(updates, checkpoint(updates), {"valid": {"loss": loss}})


def names(folder):
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def until(condition):
    """Waits up to ten seconds for what the writing thread is about to do."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert condition()


def equal(found, expected):
    """Whether two checkpoints are the same: names, types, shapes, bits, values."""
    for part in ("model", "optimizer"):
        a, b = getattr(found, part), getattr(expected, part)
        if set(a) != set(b) or not all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in b):
            return False
    return found.state == expected.state


def test_a_checkpoint_is_a_folder_of_four_files(tmp_path):
    saver = FileCheckpointer(tmp_path / "checkpoints", KeepLast(1))
    save(saver, 20)
    saver.close()
    assert names(tmp_path / "checkpoints") == {"step-20"}
    assert names(tmp_path / "checkpoints" / "step-20") == FILES
    assert saver.path(20) == tmp_path / "checkpoints" / "step-20"


def test_safetensors_alone_reads_the_weights(tmp_path):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 20)
    saver.close()
    model = safetensors.torch.load_file(tmp_path / "step-20" / "model.safetensors")
    optimizer = safetensors.torch.load_file(tmp_path / "step-20" / "optimizer.safetensors")
    assert set(model) == {"network.weight", "network.steps"}
    assert torch.equal(model["network.weight"], torch.full((3, 2), 20.0))
    assert torch.equal(optimizer["network.weight/exp_avg"], torch.full((3, 2), 2.5))


def test_the_manifest_has_size_and_sha256_of_every_other_file(tmp_path):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 20)
    saver.close()
    contents = {name: (tmp_path / "step-20" / name).read_bytes() for name in FILES - {"manifest.json"}}
    assert json.loads((tmp_path / "step-20" / "manifest.json").read_text()) == {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in contents.items()
    }


def test_what_is_loaded_is_what_was_saved(tmp_path):
    square = torch.arange(6, dtype=torch.float32).view(2, 3)
    saved = Checkpoint(
        {"half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "transposed": square.t(), "tied": square, "empty": square[:0],
         "count": torch.tensor(2**40), "flags": torch.tensor([True, False])},
        {"weight/step": torch.tensor(3.0)},
        {"updates": 7, "epoch": 2, "seed": 2**63 - 1, "history": {"valid": {"loss": {"best": 0.1}}}},
    )  # fmt: skip
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    saver.save(7, saved, {})
    saver.close()
    assert equal(load(tmp_path / "step-7"), saved)


def test_an_optimizer_without_state_is_saved_as_such(tmp_path):
    saved = Checkpoint({"weight": torch.ones(3)}, {}, {"updates": 7})
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    saver.save(7, saved, {})
    saver.close()
    assert equal(load(tmp_path / "step-7"), saved)


def test_what_is_saved_are_the_values_at_that_moment(tmp_path, rarely):
    saver = FileCheckpointer(tmp_path, KeepLast(2))
    for updates in (10, 20):  # one is written at once, one waits
        trained = checkpoint(updates)
        saver.save(updates, trained, {})
        for tensor in (*trained.model.values(), *trained.optimizer.values()):
            tensor.zero_()
    saver.close()
    assert equal(load(tmp_path / "step-10"), checkpoint(10))
    assert equal(load(tmp_path / "step-20"), checkpoint(20))


def test_the_last_two_and_the_best_stay_and_the_others_vanish(tmp_path):
    saver = FileCheckpointer(tmp_path, LAST_TWO_AND_BEST)
    on_disk = []
    for updates, loss in ((10, 0.5), (20, 0.3), (30, 0.9), (40, 0.8), (50, 0.2), (60, 0.4)):
        save(saver, updates, loss=loss)
        saver.wait()
        on_disk.append(names(tmp_path))
    saver.close()
    assert on_disk == [
        {"step-10"}, {"step-10", "step-20"}, {"step-20", "step-30"}, {"step-20", "step-30", "step-40"},
        {"step-40", "step-50"}, {"step-50", "step-60"},
    ]  # fmt: skip
    assert all(equal(load(saver.path(updates)), checkpoint(updates)) for updates in (50, 60))


def test_one_that_is_not_kept_is_never_written(tmp_path, written):
    saver = FileCheckpointer(tmp_path, lambda saved: {one.updates for one in saved if one.updates != 20})
    for updates in (10, 20, 30):
        save(saver, updates)
        saver.wait()
    saver.close()
    assert written == ["step-10", "step-30"]
    assert names(tmp_path) == {"step-10", "step-30"}


def test_between_two_writes_a_second_passes_and_close_writes_what_is_kept(tmp_path, rarely, written):
    saver = FileCheckpointer(tmp_path, LAST_TWO_AND_BEST)
    save(saver, 10, loss=0.5)
    until(lambda: names(tmp_path) == {"step-10"})
    for updates, loss in ((20, 0.4), (30, 0.1), (40, 0.9), (50, 0.8)):
        save(saver, updates, loss=loss)
    assert names(tmp_path) == {"step-10"}
    saver.close()
    assert names(tmp_path) == {"step-30", "step-40", "step-50"}
    assert written == ["step-10", "step-30", "step-40", "step-50"]  # 20 was dropped before it was due


def test_waiting_writes_what_is_kept_and_saving_goes_on(tmp_path, rarely):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    save(saver, 20)
    saver.wait()
    assert names(tmp_path) == {"step-20"}
    save(saver, 30)
    saver.wait()
    assert names(tmp_path) == {"step-30"}
    saver.close()


def test_an_old_checkpoint_goes_only_when_the_new_one_is_there(tmp_path, monkeypatch):
    at_removal, remove_folder = [], files.remove_folder
    monkeypatch.setattr(files, "remove_folder", lambda path: (at_removal.append(names(tmp_path)), remove_folder(path)))
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    save(saver, 20)
    saver.close()
    assert at_removal == [{"step-10", "step-20"}]


def test_what_others_put_there_stays(tmp_path):
    for name in ("step-5", "step-999", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("not a run's")
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    for updates in (10, 20, 30):
        save(saver, updates)
    saver.close()
    assert names(tmp_path) == {"step-5", "step-999", "mine", "step-30"}
    assert all((tmp_path / name / "precious").read_text() == "not a run's" for name in ("step-5", "step-999", "mine"))


def test_a_folder_that_was_there_under_a_checkpoints_name_is_neither_replaced_nor_removed(tmp_path):
    (tmp_path / "step-10").mkdir()
    (tmp_path / "step-10" / "precious").write_text("not a run's")
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    with pytest.raises(OSError, match="step-10"):
        save(saver, 20)
    saver.close()  # 10 is dropped now, but it was never this object's
    assert names(tmp_path) == {"step-10", "step-20"}
    assert (tmp_path / "step-10" / "precious").read_text() == "not a run's"


@pytest.mark.parametrize("later", [lambda saver: save(saver, 20), FileCheckpointer.wait, FileCheckpointer.close],
                         ids=["save", "wait", "close"])  # fmt: skip
def test_what_went_wrong_in_the_thread_is_raised_by_the_next_call(tmp_path, later):
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    saver = FileCheckpointer(tmp_path / "checkpoints", KeepLast(1))
    save(saver, 10)
    with pytest.raises(NotADirectoryError, match="checkpoints"):
        later(saver)
    assert names(tmp_path) == {"checkpoints"}


def test_saving_goes_on_once_the_cause_is_mended(tmp_path):
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    saver = FileCheckpointer(tmp_path / "checkpoints", KeepLast(1))
    save(saver, 10)
    with pytest.raises(NotADirectoryError, match="checkpoints"):
        save(saver, 20)
    (tmp_path / "checkpoints").unlink()
    saver.wait()
    assert names(tmp_path / "checkpoints") == {"step-20"}
    save(saver, 30)
    saver.close()
    assert names(tmp_path / "checkpoints") == {"step-30"}


def test_a_full_disk_half_way_leaves_nothing_that_looks_whole(tmp_path, monkeypatch):
    synced = []

    def sync(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync)
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    with pytest.raises(OSError, match="No space left on device"):
        saver.wait()
    assert names(tmp_path) == set()
    save(saver, 20)  # there is space again
    saver.close()
    assert names(tmp_path) == {"step-20"}


def test_state_that_is_no_json_is_refused_and_leaves_nothing(tmp_path):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    saver.save(10, Checkpoint({}, {}, {"device": torch.device("cpu")}), {})
    with pytest.raises(TypeError, match="Object of type device is not JSON serializable"):
        saver.close()
    assert names(tmp_path) == set()


def test_closing_ends_the_thread(tmp_path):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    saver.close()
    assert names(tmp_path) == set()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        save(saver, 10)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-3])


def change(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1  # one bit of the last tensor; in the state, epoch 1 becomes epoch 0
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [os.unlink, truncate, change], ids=["missing", "truncated", "changed"])
@pytest.mark.parametrize("name", sorted(FILES - {"manifest.json"}))
def test_a_damaged_checkpoint_is_refused_by_the_name_of_its_file(tmp_path, name, damage):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    saver.close()
    damage(tmp_path / "step-10" / name)
    with pytest.raises(errors.DataError, match=f"^{tmp_path / 'step-10' / name}: "):
        load(tmp_path / "step-10")


@pytest.mark.parametrize("damage", [os.unlink, truncate], ids=["missing", "truncated"])
def test_a_checkpoint_without_its_manifest_is_refused(tmp_path, damage):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    saver.close()
    manifest = tmp_path / "step-10" / "manifest.json"
    damage(manifest)
    with pytest.raises(errors.DataError, match=f"^{manifest}: "):
        load(tmp_path / "step-10")

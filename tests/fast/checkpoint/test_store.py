"""A store of one's own keeps checkpoints as the local disk does."""

import pytest
from checkpoints_made import LAST_TWO_AND_BEST, checkpoint, equal, save

from andiron import errors
from andiron.checkpoint import (
    FileCheckpointer,
    KeepLast,
    LocalStore,
    checkpointer,
    names,
    newest_whole,
)


class MemoryStore:
    """Keeps files as bytes by name, as an object store does, and fetches them into `cache`."""

    def __init__(self, cache):
        self.cache, self.folders, self.latest, self.is_failing = cache, {}, None, False

    def __str__(self):
        return "memory"

    def names(self):
        return list(self.folders)

    def write(self, name, pieces):
        if self.is_failing:
            raise OSError(5, "Input/output error")
        self.folders[name] = {file: b"".join(map(bytes, of)) for file, of in pieces.items()}

    def fetch(self, name):
        folder = self.cache / name
        folder.mkdir(exist_ok=True)
        for file, content in self.folders.get(name, {}).items():
            (folder / file).write_bytes(content)
        return folder

    def rename(self, name, new_name):
        self.folders[new_name] = self.folders.pop(name)

    def remove(self, name, file_names):
        left = sorted(set(self.folders.pop(name)) - set(file_names))
        return left

    def note_latest(self, name):
        self.latest = name

    def remove_leftovers(self):
        pass


@pytest.fixture(autouse=True)
def every_write_at_once(monkeypatch):
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 0.0)


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore(tmp_path)


def test_the_last_two_and_the_best_are_kept(store):
    saver = FileCheckpointer(store, LAST_TWO_AND_BEST)
    for updates, loss in ((10, 0.5), (20, 0.3), (30, 0.9), (40, 0.8)):
        save(saver, updates, loss=loss)
        assert saver.wait()
    saver.close()
    assert names(store) == ["step-20", "step-30", "step-40"]
    folder, found = newest_whole(store)
    assert folder.name == "step-40" and equal(found, checkpoint(40))


def test_a_resumed_run_adopts_its_checkpoints(store):
    saver = FileCheckpointer(store, KeepLast(2))
    for updates in (10, 20, 30):
        save(saver, updates)
        saver.wait()
    saver.close()
    again = FileCheckpointer(store, KeepLast(2))
    with pytest.raises(errors.RunFolderError, match="already holds checkpoints of a run"):
        save(again, 40)
    again.adopt(*newest_whole(store))
    save(again, 40)
    assert again.close()
    assert names(store) == ["step-30", "step-40"]


def test_turning_back_sets_newer_checkpoints_aside(store):
    saver = FileCheckpointer(store, KeepLast(3))
    for updates in (10, 20, 30):
        save(saver, updates)
        saver.wait()
    saver.turn_back(15)
    saver.close()
    assert {"step-10", "step-20.unused", "step-30.unused"} <= set(store.names())
    assert names(store) == ["step-10"]


def test_a_failing_store_is_tried_again(tmp_path, caplog):
    store = MemoryStore(tmp_path)
    saver = FileCheckpointer(store, KeepLast(1))
    save(saver, 10)
    assert saver.wait()
    store.is_failing = True
    save(saver, 20)
    assert not saver.wait()
    assert "checkpoint step-20 COULD NOT BE WRITTEN in memory (Input/output error)" in caplog.text
    store.is_failing = False
    assert saver.close()
    assert names(store) == ["step-20"] and store.latest == "step-20"


def test_a_damaged_checkpoint_is_set_aside_in_the_store(tmp_path):
    store = MemoryStore(tmp_path)
    saver = FileCheckpointer(store, KeepLast(2))
    for updates in (10, 20):
        save(saver, updates)
        saver.wait()
    saver.close()
    store.folders["step-20"]["model.safetensors"] = b""
    assert newest_whole(store)[0].name == "step-10"
    assert set(store.folders) == {"step-10", "step-20.damaged"}

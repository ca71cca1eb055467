"""A store of one's own keeps checkpoints as the local disk does."""

import inspect
import threading

import pytest
from checkpoints_made import LAST_TWO_AND_BEST, checkpoint, equal, save, saved

from andiron import errors
from andiron.checkpoint import (
    FileCheckpointer, KeepLast, LocalStore, checkpointer, names, newest_whole,
)  # fmt: skip
from andiron.checkpoint.directory import as_store
from refusals import message_of


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

    def remove_leftovers(self):
        pass


@pytest.fixture(autouse=True)
def every_write_at_once(monkeypatch):
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 0.0)


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore(tmp_path)


def test_the_last_two_and_the_best_are_kept(store):
    assert saved(store, LAST_TWO_AND_BEST, (10, 0.5), (20, 0.3), (30, 0.9), (40, 0.8)).close()
    assert names(store) == ["step-20", "step-30", "step-40"]
    folder, actual = newest_whole(store)
    assert folder.name == "step-40" and equal(actual, checkpoint(40))


def test_a_resumed_run_adopts_its_checkpoints(store):
    saved(store, KeepLast(2), 10, 20, 30).close()
    again = FileCheckpointer(store, KeepLast(2))
    with pytest.raises(errors.RunFolderError, match="already holds checkpoints of a run"):
        save(again, 40)
    again.adopt(*newest_whole(store))
    save(again, 40)
    assert again.close()
    assert names(store) == ["step-30", "step-40"]


def test_turning_back_sets_newer_checkpoints_aside(store):
    saver = saved(store, KeepLast(3), 10, 20, 30)
    saver.turn_back(15)
    assert [one.updates for one in saver.saved] == [10] and names(store) == ["step-10"]
    save(saver, 20)
    assert saver.close()
    kept = {name for name in store.names() if name.startswith("step-")}
    assert kept == {"step-10", "step-20", "step-20.unused", "step-30.unused"}
    assert newest_whole(store)[0].name == "step-20"


def test_a_failing_store_is_tried_again(tmp_path, caplog):
    store = MemoryStore(tmp_path)
    saver = saved(store, KeepLast(1), 10)
    store.is_failing = True
    save(saver, 20)
    assert not saver.wait()
    assert "checkpoint step-20 COULD NOT BE WRITTEN in memory (Input/output error)" in caplog.text
    store.is_failing = False
    assert saver.close()
    assert names(store) == ["step-20"]


def test_a_damaged_checkpoint_is_set_aside_in_the_store(tmp_path):
    store = MemoryStore(tmp_path)
    saved(store, KeepLast(2), 10, 20).close()
    store.folders["step-20"]["model.safetensors"] = b""
    assert newest_whole(store)[0].name == "step-10"
    assert set(store.folders) == {"step-10", "step-20.damaged"}


class Faulty(MemoryStore):
    """A store one of whose methods is another function."""

    def __init__(self, cache, method, does):
        super().__init__(cache)
        setattr(self, method, does)


def raising(error):
    def does(*_):
        raise error

    return does


@pytest.mark.parametrize(("method", "does", "problem"), [
    ("write", raising(SystemExit("no credentials")), "write raised SystemExit: no credentials"),
    ("write", raising(KeyboardInterrupt()), "write raised KeyboardInterrupt"),
    ("write", raising(TypeError("a mistake")), "write raised TypeError: a mistake"),
    ("write", raising(RuntimeError("quota")), "write raised RuntimeError: quota"),
    ("write", raising(OSError("no number")), "write raised OSError: no number"),
    ("write", raising(OSError(28, "No space left")), "(No space left)"),
    ("fetch", lambda _: "a/text", "fetch raised TypeError: returned 'a/text'"),
    ("fetch", raising(GeneratorExit()), "fetch raised GeneratorExit"),
])  # fmt: skip
def test_whatever_a_store_raises_or_returns_is_named_and_tried_again(
    tmp_path, caplog, method, does, problem
):
    store = Faulty(tmp_path, method, does)
    saver = FileCheckpointer(store, KeepLast(2))
    save(saver, 10)
    assert not saver.wait()
    assert "step-10 COULD NOT BE WRITTEN in memory" in caplog.text and problem in caplog.text
    delattr(store, method)  # the class's own
    store.folders.clear()
    assert saver.close() and names(store) == ["step-10"]


def test_the_methods_of_a_named_store_are_found_without_asking_it(tmp_path):
    """Python 3.12's isinstance looks for them so."""
    store = as_store(MemoryStore(tmp_path))
    for method in ("names", "write", "fetch", "rename", "remove"):
        assert inspect.getattr_static(store, method)


@pytest.mark.parametrize("listed", [None, [1, 2], "step-1", 7])
def test_names_that_are_no_texts_are_refused_before_the_first_save(tmp_path, listed):
    saver = FileCheckpointer(Faulty(tmp_path, "names", lambda: listed), KeepLast(1))
    with pytest.raises(errors.DataError, match="memory: cannot be read .names raised TypeError: "):
        save(saver, 10)
    saver.close()


def test_another_checkpoint_than_the_written_one_is_not_taken_for_it(tmp_path, caplog):
    store = MemoryStore(tmp_path)
    saver = saved(store, KeepLast(3), 10)
    fetch = store.fetch
    store.fetch = lambda name: fetch("step-10")
    save(saver, 20)
    assert not saver.close()
    assert "is another checkpoint than was written" in caplog.text
    assert names(store) == ["step-10"] and "step-20.damaged" in store.folders


def test_a_store_that_does_not_return_is_named_and_not_waited_for(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(checkpointer, "MOST_SECONDS", 0.05)
    end = threading.Event()
    saver = FileCheckpointer(Faulty(tmp_path, "write", lambda *_: end.wait()), KeepLast(1))
    save(saver, 10)
    assert not saver.wait()
    save(saver, 20)
    assert "step-10 COULD NOT BE WRITTEN" in caplog.text and "has not returned" in caplog.text
    assert not saver.close()
    assert "this process ends: step-10 (the store does not return), step-20" in caplog.text
    end.set()


def test_an_object_without_the_methods_of_a_store_is_refused():
    for place in (None, "a/text", object()):
        assert "is not a store: it lacks methods" in message_of(errors.ConfigError, as_store, place)

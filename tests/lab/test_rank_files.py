"""`checkpoint.files=rank`: files of several processes become one checkpoint, or none."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from andiron import errors
from andiron.checkpoint import Checkpoint, FileCheckpointer, KeepLast, checkpointing, load, write
from andiron.checkpoint.store import SilentCheckpointer
from andiron.distributed import World
from andiron_lab.sharded import consolidate, rank_files
from andiron_lab.sharded.rank_files import RankCheckpointer, RankFiles

MODEL = {"a": torch.arange(6.0).view(3, 2), "b": torch.tensor(3), "c": torch.ones(2)}
OPTIMIZER = {"a/momentum": torch.full((3, 2), 0.5), "c/momentum": torch.zeros(2)}
EMA = {name: -values for name, values in MODEL.items()}


class TwoProcesses:
    """The savers of two processes in one folder, of which the second has some of the tensors."""

    def __init__(self, folder):
        worlds = World(0, 2), World(1, 2)
        strategy, cadence = KeepLast(2), checkpointing().cadence
        self.first = FileCheckpointer(folder, strategy)
        self.second = RankCheckpointer(
            worlds[1], SilentCheckpointer(self.first.store, strategy, cadence)
        )
        self._files = [RankFiles(world, self.first.store) for world in worlds]

    def save(self, updates, *, only_first=False):
        """Saves the state after some updates; returns what the second process writes."""
        state = {"updates": updates}
        whole = Checkpoint(MODEL, OPTIMIZER, state, {"ema": EMA})
        second, first = (files.own(whole) for files in self._files[::-1])
        moved = {"a": MODEL["a"], "c": MODEL["c"]}
        second = replace(
            second, model=moved, averages={"ema": {"c": EMA["c"]}},
            optimizer={"a/momentum": OPTIMIZER["a/momentum"]},
        )  # fmt: skip
        first = replace(
            first, model={"b": MODEL["b"]}, optimizer={"c/momentum": OPTIMIZER["c/momentum"]},
            averages={"ema": {"a": EMA["a"], "b": EMA["b"]}},
        )  # fmt: skip
        self.first.save(updates, first, {})
        if not only_first:
            self.second.save(updates, second, {})
        return second


@pytest.fixture
def two(tmp_path):
    processes = TwoProcesses(tmp_path / "checkpoints")
    yield processes
    processes.second.close()
    processes.first.close()


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_the_files_of_two_processes_are_the_tensors_of_one(two, tmp_path):
    for updates in (1, 2, 3):
        two.save(updates)
    assert two.second.wait() and two.first.wait()

    assert names(tmp_path / "checkpoints") == {"step-2", "step-3"}
    folder = tmp_path / "checkpoints" / "step-3"
    assert "model.safetensors" not in names(folder)  # which others would read alone
    saved = load(folder)
    for tensors, expected in zip(
        (saved.model, saved.optimizer, saved.averages["ema"]), (MODEL, OPTIMIZER, EMA), strict=True
    ):
        assert tensors.keys() == expected.keys()
        assert all(tensors[name].equal(values) for name, values in expected.items())


def test_consolidated_files_have_the_bytes_of_whole_ones(two, tmp_path):
    two.save(7)
    assert two.second.wait() and two.first.wait()
    whole = Checkpoint(MODEL, OPTIMIZER, {**load(two.first.store.fetch("step-7")).state},
                       {"ema": EMA})  # fmt: skip
    write(tmp_path / "whole" / "step-7", whole)

    consolidate.consolidate(tmp_path / "checkpoints" / "step-7", tmp_path / "joined")

    expected = tmp_path / "whole" / "step-7"
    assert names(tmp_path / "joined") == names(expected)
    for name in names(expected):
        assert (tmp_path / "joined" / name).read_bytes() == (expected / name).read_bytes(), name
    with pytest.raises(errors.OutputError, match="name a new folder"):
        consolidate.consolidate(tmp_path / "checkpoints" / "step-7", tmp_path / "joined")


def test_another_process_is_sent_no_tensors_but_where_they_are(two):
    two.save(3)
    assert two.second.wait() and two.first.wait()
    folder = two.first.store.fetch("step-3")
    sent = pickle.dumps(load(folder))

    received = pickle.loads(sent)
    assert received.folder == folder and received.model["a"].equal(MODEL["a"])
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(errors.DataError, match="model-00002-of-00002.safetensors: no such file"):
        pickle.loads(sent)


def test_a_checkpoint_waits_for_the_files_of_all(two, tmp_path, monkeypatch, caplog):
    two.save(1)
    assert two.second.wait() and two.first.wait()
    monkeypatch.setattr(rank_files, "SECONDS_WITHOUT_BYTES", 0.1)
    part = two.save(2, only_first=True)

    assert not two.first.wait()
    assert names(tmp_path / "checkpoints") == {"step-1", part.folder.name}
    assert "step-2 COULD NOT BE WRITTEN" in caplog.text
    assert "another process does not write its files" in caplog.text

    two.second.save(2, part, {})
    assert two.second.wait() and two.first.wait()
    assert names(tmp_path / "checkpoints") == {"step-1", "step-2"}


def test_files_that_cannot_be_written_are_tried_again(two, tmp_path, monkeypatch, caplog):
    written = rank_files.write_through
    monkeypatch.setattr(rank_files, "SECONDS_WITHOUT_BYTES", 0.1)

    def full(path, pieces):
        written(path, [b"half"])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rank_files, "write_through", full)
    part = two.save(5)
    assert not two.second.wait() and not two.first.wait()
    assert "process 1 COULD NOT BE WRITTEN (No space left on device)" in caplog.text
    assert names(part.folder) == set()

    monkeypatch.setattr(rank_files, "write_through", written)
    assert two.second.wait() and two.first.wait()
    assert names(tmp_path / "checkpoints") == {"step-5"}


def test_a_folder_that_could_not_be_made_on_a_full_disk_is_made_later(two, monkeypatch, caplog):
    made = Path.mkdir
    monkeypatch.setattr(rank_files, "SECONDS_WITHOUT_BYTES", 0.1)

    def full(path, *args, **kwargs):
        if path.suffix == ".partial":
            raise OSError(28, "No space left on device")
        made(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", full)
    two.save(5)
    assert not two.second.wait() and not two.first.wait()
    assert "process 1 COULD NOT BE WRITTEN (No space left on device)" in caplog.text

    monkeypatch.setattr(Path, "mkdir", made)
    assert two.second.wait() and two.first.wait()
    assert names(two.first.store.folder) == {"step-5"}


def test_what_a_killed_process_left_is_removed_when_the_run_resumes(two, tmp_path):
    two.save(1)
    assert two.second.wait() and two.first.wait()
    left = tmp_path / "checkpoints" / ".step-2.00020001.partial"
    left.mkdir()
    (left / "model-00002-of-00002.safetensors").write_bytes(b"half")
    (left / "state.json").write_bytes(b"{")

    again = FileCheckpointer(tmp_path / "checkpoints", KeepLast(2))
    folder = tmp_path / "checkpoints" / "step-1"
    again.adopt(folder, load(folder))

    assert names(tmp_path / "checkpoints") == {"step-1"}


def test_files_of_a_killed_process_are_not_taken_for_new_ones(two, monkeypatch):
    monkeypatch.setattr(rank_files, "SECONDS_WITHOUT_BYTES", 0.1)
    before = Checkpoint(MODEL, OPTIMIZER, {"updates": 1}, {"ema": EMA})
    killed = RankFiles(World(1, 2), two.first.store).own(before)
    two.second.save(1, killed, {})
    assert two.second.wait() and names(killed.folder)

    # no checkpoint was whole: the run begins anew, and nothing is adopted
    part = two.save(1, only_first=True)
    assert part.folder == killed.folder and not two.first.wait()
    two.second.save(1, part, {})
    assert two.second.wait() and two.first.wait()


def torch_file(path, tensors, **begins):
    """A file as torch's `HuggingFaceStorageWriter` writes it."""
    places = {name: {"saved_offsets": begins.get(name, [0] * tensors[name].dim())}
              for name in tensors}  # fmt: skip
    save_file(tensors, path, {"DCP_SHARDING_INFO": json.dumps(places), "DCP_VERSION": "1.0"})


WRONG = {
    "a part that is missing": ({"a": [4, 0]}, "'a' has 12 elements, and its files 8; one is"),
    "a part that is there twice": ({"a": [0, 0]}, "'a' has 4 elements, and its files 8; one is"),
    "another number of dimensions": ({"a": [2]}, "where its tensors belong .*'a' begins at"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parts_of_torch_are_refused(name, tmp_path):
    begins, message = WRONG[name]
    torch_file(tmp_path / "shard-00001-model-00001-of-00001.safetensors", {"a": torch.ones(2, 2)})
    torch_file(tmp_path / "shard-00002-model-00001-of-00001.safetensors",
               {"a": torch.ones(2, 2)}, **begins)  # fmt: skip

    with pytest.raises(errors.DataError, match=message):
        consolidate.consolidate(tmp_path, tmp_path / "joined")

    assert not (tmp_path / "joined").exists()


def test_a_folder_without_parts_is_refused(tmp_path):
    with pytest.raises(errors.DataError, match="has no .*safetensors; name a folder"):
        consolidate.consolidate(tmp_path, tmp_path / "joined")
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(errors.DataError, match="does not say where its tensors belong"):
        consolidate.consolidate(tmp_path, tmp_path / "joined")

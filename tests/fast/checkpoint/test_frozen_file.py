"""Weights that do not train are written once; whatever happens to their file is named."""

import os
import shutil

import pytest
import safetensors.torch
import torch
from checkpoints_made import FILES, equal, names
from torch import nn

from andiron import errors, serialization
from andiron.checkpoint import (
    Checkpoint, FileCheckpointer, KeepLast, LocalStore, checkpointer, load, newest_whole, write,
)  # fmt: skip
from refusals import message_of

FROZEN = "frozen.safetensors"
BODY, SHARED, HEAD = torch.randn(50, 7), ("body.weight", "body.twin"), "head.weight"
DAMAGES = {
    "missing": (lambda path: path.unlink(), "missing"),
    "cut": (lambda path: os.truncate(path, 900), "has 900 bytes, not "),
    "damaged": (lambda path: path.write_bytes(path.read_bytes()[:-4] + b"bits"), "SHA-256 is "),
    "replaced": (
        lambda path: serialization.save_tensors(path, dict.fromkeys(SHARED, BODY + 1)),
        "SHA-256 is ",
    ),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read (Is a directory)"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def every_write_at_once(monkeypatch):
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 0.0)


def checkpoint(updates, frozen=SHARED, body=BODY):
    model = {**dict.fromkeys(SHARED, body), HEAD: torch.full((3, 2), float(updates))}
    optimizer = {f"{HEAD}/exp_avg": torch.full((3, 2), updates / 8)}
    state = {"updates": updates}
    return Checkpoint(model, optimizer, state, {"ema": {**model}}, {}, None, frozenset(frozen))


def saved(place, *checkpoints, keeps=9):
    saver = FileCheckpointer(place, KeepLast(keeps))
    for value in checkpoints:
        saver.save(value.state["updates"], value, {})
        saver.wait()
    assert saver.close()


def inode(folder, number):
    return os.stat(folder / f"step-{number}" / FROZEN).st_ino


def test_frozen_weights_are_written_once_and_loaded_with_the_others(tmp_path):
    first, second = checkpoint(10), checkpoint(20)
    saved(tmp_path, first, second)
    assert names(tmp_path / "step-20") == FILES | {FROZEN, "model-ema.safetensors"}
    assert inode(tmp_path, 10) == inode(tmp_path, 20)
    assert safetensors.torch.load_file(tmp_path / "step-20/model.safetensors").keys() == {HEAD}
    for value in (first, second):
        folder = tmp_path / f"step-{value.state['updates']}"
        assert equal(load(folder), value)
        whole = serialization.load_tensors(folder / "model.safetensors")
        assert all(torch.equal(whole[name], value.model[name]) for name in value.model)
        assert len(whole) == 3


def test_what_a_checkpoint_adds_is_little_more_than_what_trains_and_its_state(tmp_path):
    trained, steps = {HEAD: torch.randn(100, 30)}, {f"{HEAD}/exp_avg": torch.randn(100, 30)}
    made = [
        Checkpoint({"body.weight": torch.ones(10**6), **trained}, steps, {"updates": updates},
                   frozen=frozenset(["body.weight"]))
        for updates in (10, 20)
    ]  # fmt: skip
    saved(tmp_path, *made)
    first, second = ({path.stat().st_ino: path.stat().st_size for path in folder.iterdir()}
                     for folder in (tmp_path / "step-10", tmp_path / "step-20"))  # fmt: skip
    added = sum(size for number, size in second.items() if number not in first)
    assert added <= 1.1 * 2 * trained[HEAD].nbytes < sum(first.values()) / 100


def test_a_run_that_resumes_links_the_file_too(tmp_path):
    saved(tmp_path, checkpoint(10))
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    saver.adopt(*newest_whole(tmp_path))
    before = inode(tmp_path, 10)
    saver.save(20, checkpoint(20), {})
    assert saver.close() and names(tmp_path) == {"step-20"}
    assert inode(tmp_path, 20) == before and equal(load(tmp_path / "step-20"), checkpoint(20))


def test_weights_that_thaw_are_in_the_checkpoint_from_then_on(tmp_path):
    thawed = checkpoint(30, ["body.twin"]), checkpoint(40, ["body.twin"]), checkpoint(50, [])
    saved(tmp_path, checkpoint(10), *thawed)
    assert inode(tmp_path, 10) != inode(tmp_path, 30) == inode(tmp_path, 40)
    assert names(tmp_path / "step-50") == FILES | {"model-ema.safetensors"}
    for value in thawed:
        assert equal(load(tmp_path / f"step-{value.state['updates']}"), value)


def test_frozen_weights_that_change_after_all_are_written_again(tmp_path):
    """Such as a teacher that the user's code averages."""
    changed = checkpoint(20, body=BODY + 1)
    saved(tmp_path, checkpoint(10), changed)
    assert inode(tmp_path, 10) != inode(tmp_path, 20)
    assert equal(load(tmp_path / "step-20"), changed)
    assert equal(load(tmp_path / "step-10"), checkpoint(10))


def test_a_file_system_without_links_gets_copies(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    saved(tmp_path, checkpoint(10), checkpoint(20))
    assert inode(tmp_path, 10) != inode(tmp_path, 20)
    assert equal(load(tmp_path / "step-20"), checkpoint(20))


class Elsewhere(LocalStore):
    """A user's store, which writes the pieces that it gets."""

    def write(self, name, pieces):
        super().write(name, {file: [b"".join(parts)] for file, parts in pieces.items()})


def test_a_store_of_the_users_gets_the_bytes(tmp_path):
    saved(Elsewhere(tmp_path), checkpoint(10), checkpoint(20))
    assert inode(tmp_path, 10) != inode(tmp_path, 20)
    assert equal(load(tmp_path / "step-20"), checkpoint(20))


def test_a_symbolic_link_is_not_followed(tmp_path):
    saved(tmp_path / "run", checkpoint(10))
    moved = tmp_path / "elsewhere"
    (tmp_path / "run" / "step-10" / FROZEN).rename(moved)
    (tmp_path / "run" / "step-10" / FROZEN).symlink_to(moved)
    saver = FileCheckpointer(tmp_path / "run", KeepLast(2))
    saver.adopt(*newest_whole(tmp_path / "run"))
    saver.save(20, checkpoint(20), {})
    assert saver.close() and inode(tmp_path / "run", 20) != os.stat(moved).st_ino


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_happened_to_the_file_is_named(tmp_path, damage):
    saved(tmp_path, checkpoint(10))
    file, (change, words) = tmp_path / "step-10" / FROZEN, DAMAGES[damage]
    change(file)
    message = message_of(errors.FrozenFileError, load, tmp_path / "step-10")
    assert message.startswith(f"{file}: {words}")
    assert message.endswith("copy the file from another checkpoint of the run, or use another "
                            "checkpoint")  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_weights_are_not_read_without_their_frozen_part(tmp_path, damage):
    """Also where no manifest is beside them."""
    write(tmp_path / "step-10", checkpoint(10))
    shutil.copytree(tmp_path / "step-10", tmp_path / "alone")
    (tmp_path / "alone" / "manifest.json").unlink()
    DAMAGES[damage][0](tmp_path / "alone" / FROZEN)
    weights = tmp_path / "alone" / "model.safetensors"
    network = nn.ModuleDict({"head": nn.Linear(2, 3, bias=False), "body": nn.Linear(7, 50)})
    for read in (
        lambda: serialization.load(weights),
        lambda: serialization.load_file(network, weights, partial=True),
        lambda: serialization.load_tensors(weights),
    ):
        message = message_of(errors.FrozenFileError, read)
        assert message.startswith(f"{weights.with_name(FROZEN)}: ")
        assert "model.safetensors was written with SHA-256 " in message


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_not_linked_again(tmp_path, damage):
    saved(tmp_path, checkpoint(10), checkpoint(20))
    saver = FileCheckpointer(tmp_path, KeepLast(9))
    saver.adopt(*newest_whole(tmp_path))
    DAMAGES[damage][0](tmp_path / "step-20" / FROZEN)
    saver.save(30, checkpoint(30), {})
    assert saver.close() and equal(load(tmp_path / "step-30"), checkpoint(30))


def test_a_checkpoint_that_lacks_only_its_frozen_weights_keeps_its_name(tmp_path, caplog):
    saved(tmp_path, checkpoint(10), checkpoint(20))
    whole = (tmp_path / "step-20" / FROZEN).rename(tmp_path / "whole")
    folder, actual = newest_whole(tmp_path)
    assert folder.name == "step-10" and equal(actual, checkpoint(10))
    assert f"checkpoint step-20 is ignored: {tmp_path / 'step-20' / FROZEN}: missing" in caplog.text

    (tmp_path / "step-10" / FROZEN).unlink()
    (tmp_path / "step-10" / FROZEN).write_bytes(b"other")
    message = message_of(errors.FrozenFileError, newest_whole, tmp_path)
    assert message.startswith(f"{tmp_path / 'step-20' / FROZEN}: missing")
    shutil.copy(whole, tmp_path / "step-20" / FROZEN)  # the remedy
    assert newest_whole(tmp_path)[0].name == "step-20"


def test_a_checkpoint_without_frozen_weights_has_the_bytes_it_had(tmp_path):
    tensors = checkpoint(10).model
    write(tmp_path / "step-10", checkpoint(10, []))
    serialization.save_tensors(tmp_path / "model.safetensors", tensors)
    one, other = tmp_path / "step-10", tmp_path
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()

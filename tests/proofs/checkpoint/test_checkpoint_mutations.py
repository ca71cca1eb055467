"""Files of a checkpoint changed at random: found before a tensor is used, or of no consequence."""

import random
import shutil
from dataclasses import replace

import pytest
import torch
from checkpoints_made import ALL_FILES, equal, rich

from andiron import errors, serialization
from andiron.checkpoint import load, newest_whole, write

MUTATIONS = 100  # of each file
FROZEN = "frozen.safetensors"


def truncated(content, draw, others):
    return content[: draw.randrange(len(content))]


def flipped(content, draw, others):
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def deleted(content, draw, others):
    return None


def swapped(content, draw, others):
    return draw.choice(others)


def foreign(content, draw, others):
    return draw.randbytes(draw.choice([0, 1, 7, 8, len(content), 5000]))


def appended(content, draw, others):
    return content + draw.choice([b"\0", b"\n{}", b" x", draw.randbytes(draw.randrange(1, 300))])


def zeroed(content, draw, others):
    start = draw.randrange(len(content))
    end = min(len(content), start + draw.choice([1, 16, 512]))
    return content[:start] + bytes(end - start) + content[end:]


def nested(content, draw, others):
    return draw.choice([b"[", b'{"a":']) * draw.choice([500, 100_000])


def doubled(content, draw, others):
    start = draw.randrange(len(content))
    return content[:start] + content[draw.randrange(len(content)) :] + content[start:]


def in_another_encoding(content, draw, others):
    return content.decode("latin-1").encode(draw.choice(["utf-16", "utf-32", "utf-8-sig"]))


WAYS = [
    truncated, flipped, deleted, swapped, foreign, appended, zeroed, nested, doubled,
    in_another_encoding,
]  # fmt: skip


@pytest.fixture
def shelf(tmp_path):
    """The previous checkpoint, the damaged one, and the folder of another like it."""
    write(tmp_path / "run" / "step-10", rich(10))
    write(tmp_path / "run" / "step-20", rich(20))
    write(
        tmp_path / "other" / "step-20",
        rich(21).__class__(**{**vars(rich(21)), "state": rich(20).state | {"epoch": 3}}),
    )
    return tmp_path


def change(shelf, name, draw):
    """Changes one file of step-20 in one way; which that was."""
    path = shelf / "run" / "step-20" / name
    others = [
        (value / name).read_bytes()
        for value in (shelf / "other" / "step-20", shelf / "run" / "step-10")
    ]
    others += [(path.parent / other).read_bytes() for other in sorted(ALL_FILES)]
    way = draw.choice(WAYS)
    content = way(path.read_bytes(), draw, others)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    return way.__name__


@pytest.mark.parametrize("name", sorted(ALL_FILES))
def test_a_changed_file_is_detected_or_harmless_and_the_previous_is_used(shelf, name):
    draw = random.Random(name)
    folder, whole = shelf / "run" / "step-20", shelf / "whole"
    shutil.copytree(folder, whole)
    refused = 0
    for number in range(MUTATIONS):
        way = change(shelf, name, draw)
        try:
            record = load(folder)
        except errors.DataError as error:
            refused += 1
            assert str(error).startswith(f"{folder}/") and error.args[0].count(";") >= 1
            path, before = newest_whole(shelf / "run")
            assert path.name == "step-10" and equal(before, rich(10)), (number, way)
            shutil.rmtree(shelf / "run" / "step-20.damaged")
        else:
            assert equal(record, rich(20)), (number, way)
            assert newest_whole(shelf / "run")[0] == folder
            shutil.rmtree(folder)
        shutil.copytree(whole, folder)
    # the others: a file swapped for itself, zeros made zero, spaces after JSON
    assert refused >= 0.8 * MUTATIONS


def test_a_changed_file_of_frozen_weights_is_named_or_harmless(tmp_path):
    draw, names = random.Random(FROZEN), frozenset(["tied", "again"])
    for number in (10, 20):
        body = dict.fromkeys(names, torch.arange(35.0) + number)
        made = replace(rich(number), frozen=names)
        write(tmp_path / f"step-{number}", replace(made, model=made.model | body))
    folder, expected = tmp_path / "step-20", load(tmp_path / "step-20")
    content, refused = (folder / FROZEN).read_bytes(), 0
    others = [(path / FROZEN).read_bytes() for path in (tmp_path / "step-10", folder)]
    for number in range(MUTATIONS):
        way = draw.choice(WAYS)
        changed = way(content, draw, others)
        (folder / FROZEN).unlink(missing_ok=True)
        if changed is not None:
            (folder / FROZEN).write_bytes(changed)
        try:
            record = load(folder)
        except errors.FrozenFileError as error:
            refused += 1
            assert str(error).startswith(f"{folder / FROZEN}: ")
            with pytest.raises(errors.FrozenFileError):
                serialization.load_tensors(folder / "model.safetensors")
            assert newest_whole(tmp_path)[0].name == "step-10" and folder.exists()
        else:
            assert equal(record, expected), (number, way)
    assert refused >= 0.8 * MUTATIONS


def test_all_files_swapped_for_another_checkpoints_are_found(shelf):
    shutil.rmtree(shelf / "run" / "step-20")
    shutil.copytree(shelf / "run" / "step-10", shelf / "run" / "step-20")
    path, actual = newest_whole(shelf / "run")
    assert path.name == "step-10" and equal(actual, rich(10))

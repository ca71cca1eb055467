"""The ledger of ideas: damaged, cut off, or not to be written; and the number of a new idea."""

import json
import os

import pytest

from andiron import errors
from andiron_lab.seeds import idea_ledger
from refusals import message_of

WHOLE = {"idea": 1, "metric": "valid/loss", "mean": 0.5, "kept": True, "values": {"seed=0": 0.5},
         "code": [{"root": "/a", "revision": "b", "uncommitted": None}], "patches": []}  # fmt: skip
LINE = json.dumps(WHOLE)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ideas.jsonl"


@pytest.mark.parametrize("line", [
    [], None, 3, "idea", {}, {"idea": 3},
    *({value: WHOLE[value] for value in WHOLE if value != name} for name in WHOLE),
    *(WHOLE | {name: {"no": "no"}} for name in WHOLE), *(WHOLE | {name: ["no"]} for name in WHOLE),
    WHOLE | {"mean": "0.5"}, WHOLE | {"kept": "yes"}, WHOLE | {"values": {"seed=0": None}},
    WHOLE | {"code": [WHOLE["code"][0] | {"uncommitted": "c"}]}, WHOLE | {"patches": ["x.patch"]},
])  # fmt: skip
def test_a_damaged_ledger_is_named(path, line):
    path.write_text(f"{LINE}\n{json.dumps(line)}\n")

    said = message_of(errors.DataError, idea_ledger.read, path)

    assert said.startswith(f"{path}: is not a ledger of ideas; restore it, or give another folder")


@pytest.mark.parametrize("number", [1, 3])
def test_two_lines_of_one_number_are_no_ledger(path, number):
    lines = [WHOLE | {"idea": value} for value in (1, 2, 3, number)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    said = message_of(errors.DataError, idea_ledger.read, path)

    assert said.startswith(f"{path}: idea {number} has two lines; remove one, or give another")


@pytest.mark.parametrize(("last", "numbers"), [
    ("", [1, 9]), (f"{json.dumps(WHOLE | {'idea': 2})}\n", [1, 2, 9]),
    (json.dumps(WHOLE | {"idea": 2}), [1, 2, 9]), (LINE[:30], [1, 9]), ("{", [1, 9]),
])  # fmt: skip
def test_the_next_line_follows_a_last_one_that_was_cut_off(path, last, numbers):
    path.write_text(f"{LINE}\n{last}")
    assert [*idea_ledger.read(path)] == numbers[:-1]

    book = idea_ledger.opened(path)
    book.append(f"{json.dumps(WHOLE | {'idea': 9})}\n".encode())
    assert book.close() is None

    assert [*idea_ledger.read(path)] == numbers


@pytest.mark.parametrize("make", [
    lambda path: path.symlink_to(path.with_name("elsewhere")),
    lambda path: (path.with_name("other").touch(), os.link(path.with_name("other"), path)),
    lambda path: path.mkdir(), os.mkfifo, lambda path: path.parent.rmdir() or path.parent.touch(),
], ids=["link", "hard link", "folder", "pipe", "file above"])  # fmt: skip
def test_what_cannot_be_written_is_named_before_an_idea_is_trained(path, make):
    make(path)

    said = message_of(errors.OutputError, idea_ledger.opened, path)

    assert said.startswith(f"{path} cannot be written (")
    assert said.endswith("); give another folder with --ideas")


def test_a_number_is_given_once_whatever_is_left_of_the_folders(tmp_path):
    (tmp_path / "4").symlink_to(tmp_path / "gone")
    (tmp_path / "notes").mkdir()

    names = [idea_ledger.new_folder(tmp_path, ideas).name for ideas in ({}, {7: WHOLE}, {})]

    assert names == ["5", "8", "9"]

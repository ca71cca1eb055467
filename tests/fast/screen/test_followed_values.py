"""Logged values are followed as the file grows; malformed lines are harmless."""

import json
import os

from andiron.wings.screen import watch
from andiron.wings.screen.followed_values import FollowedValues


def line(updates, split="train", **values):
    return json.dumps({"split": split, "updates": updates, "epoch": 1, "over": "window", **values})


def test_lines_are_read_once_and_when_they_are_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    followed = FollowedValues(path)
    followed.read()  # does not exist yet
    path.write_text(f"{line(1, loss=0.5)}\n{line(2, loss=0.25)}"[:-5])
    followed.read()
    followed.read()
    assert followed.curves.by_name["loss"]["train"].values == [0.5]
    path.write_text(f"{line(1, loss=0.5)}\n{line(2, loss=0.25)}\n{line(3, loss=0.125)}\n")
    followed.read()
    assert followed.curves.by_name["loss"]["train"].values == [0.5, 0.25, 0.125]


def test_a_file_that_is_cut_back_or_replaced_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f"{line(n, loss=n)}\n" for n in (1, 2, 3)))
    followed = FollowedValues(path)
    followed.read()
    os.truncate(path, len(line(1, loss=1)) + 1)
    followed.read()
    assert followed.curves.by_name["loss"]["train"].values == [1]
    other = tmp_path / "other"
    other.write_text("".join(f"{line(n, loss=n)}\n" for n in (7, 8)))
    other.replace(path)
    followed.read()
    assert followed.curves.by_name["loss"]["train"].values == [7, 8]


def test_lines_of_another_form_are_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    other = [
        b"\xff\xfe", b"[" * 100_000, b"{}", b"[1]", b'"x"', b"null", b'{"split": 1}',
        b'{"split": "train", "updates": 1e999, "epoch": 1, "loss": 1}',
        json.dumps({"split": "train", "updates": 1, "epoch": 1, "x" * 300: 1}).encode(),
        line(1, text="words", number=True, inner=[1]).encode(), line(10**400, loss=1).encode(),
        line(-1, loss=1).encode(), line(1, large=10**400).encode(),
        line(1, **dict.fromkeys(map(str, range(20_000)), 1)).encode(),
    ]  # fmt: skip
    path.write_bytes(b"\n".join([*other, line(2, loss=0.5).encode(), b""]))
    followed = FollowedValues(path)
    followed.read()
    assert {*followed.curves.by_name} == {"loss"}


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    path = tmp_path / "metrics.jsonl"
    os.mkfifo(path)
    FollowedValues(path).read()
    assert watch.tail(path, 5) == []


def test_a_tail_has_the_last_lines(tmp_path):
    path = tmp_path / "experiment.log"
    path.write_text("".join(f"line {n}\n" for n in range(100)))
    assert watch.tail(path, 2) == ["line 98", "line 99"]
    assert watch.tail(tmp_path / "missing", 2) == []

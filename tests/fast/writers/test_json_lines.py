"""metrics.jsonl: every logged value, one line per point, on disk as soon as written."""

import json
import os

import pytest

from andiron import errors
from andiron.protocols import Point
from andiron.writers import JsonLinesWriter, Writers


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_says_what_was_measured_when_and_over_what(tmp_path):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    writer.write(Point("train", 20, 1, {"loss": 0.5, "accuracy": 0.25, "lr/base": 1e-3}))
    writer.write(Point("valid", 21, 1, {"loss": 0.75}, whole_epoch=True))
    writer.write(Point("test", 21, 1, {"loss": 1.5}, whole_epoch=True))
    writer.close()
    assert lines(tmp_path / "metrics.jsonl") == [
        {"split": "train", "updates": 20, "epoch": 1, "over": "window", "loss": 0.5,
         "accuracy": 0.25, "lr/base": 0.001},
        {"split": "valid", "updates": 21, "epoch": 1, "over": "epoch", "loss": 0.75},
        {"split": "test", "updates": 21, "epoch": 1, "over": "epoch", "loss": 1.5},
    ]  # fmt: skip


def test_every_point_is_on_the_disk_when_it_is_written(tmp_path):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    for updates in range(1, 5):
        writer.write(Point("train", updates, 1, {"loss": 1 / updates}))
        assert [line["updates"] for line in lines(tmp_path / "metrics.jsonl")] == list(
            range(1, updates + 1)
        )
    writer.close()


def test_numbers_come_back_exactly(tmp_path):
    values = {
        "tenth": 0.1, "third": 1 / 3, "least": 5e-324, "most": 1.7976931348623157e308, "int": 2**53,
    }  # fmt: skip
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    writer.write(Point("train", 1, 1, values))
    writer.close()
    [line] = lines(tmp_path / "metrics.jsonl")
    assert {name: line[name] for name in values} == values


def test_a_point_without_numbers_is_no_line(tmp_path):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    writer.write(Point("valid", 3, 1, {}, texts={"sample": "to be"}))
    writer.close()
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_going_back_and_on_is_never_having_gone_further(tmp_path):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    for updates in range(1, 8):
        writer.write(Point("train", updates, 1, {"loss": 1 / updates}))
        if updates == 4:
            position = json.loads(json.dumps(writer.position()))
    writer.close()
    resumed = JsonLinesWriter(tmp_path / "metrics.jsonl")
    resumed.rewind(position, 4)
    for updates in range(5, 10):
        resumed.write(Point("train", updates, 1, {"loss": 1 / updates}))
    resumed.close()
    assert [(line["updates"], line["loss"]) for line in lines(tmp_path / "metrics.jsonl")] == [
        (n, 1 / n) for n in range(1, 10)
    ]


def test_an_endless_last_line_is_refused_without_reading_to_its_start(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"{}\n")
    os.truncate(path, 10**11)  # a sparse file
    with pytest.raises(errors.DataError, match="its last 4,194,304 bytes are not a valid line"):
        JsonLinesWriter(path)
    assert path.stat().st_size == 10**11


def test_a_half_line_of_a_killed_process_is_cut_off(tmp_path):
    whole = b'{"updates": 1}\n{"updates": 2}\n'
    for half in (b"", b"{", b'{"updates": 3, "loss": ' + b"1" * 200_000):
        (tmp_path / "metrics.jsonl").write_bytes(whole + half)
        writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
        writer.write(Point("train", 3, 1, {"loss": 0.5}))
        writer.close()
        assert [line["updates"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    (tmp_path / "metrics.jsonl").write_bytes(b'{"updates"')
    JsonLinesWriter(tmp_path / "metrics.jsonl").close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""


@pytest.mark.parametrize("number", [3, 40])
def test_the_file_of_another_run_is_refused_and_not_cut(tmp_path, number):
    positions = []
    for name, loss, points in (("own", 0.5, 20), ("others", 0.25, number)):
        writer = JsonLinesWriter(tmp_path / name)
        for updates in range(points):
            writer.write(Point("train", updates, 1, {"loss": loss, "accuracy": 1 / (updates + 1)}))
        positions.append(json.loads(json.dumps(writer.position())))
        writer.close()
    others = (tmp_path / "others").read_bytes()
    writer = JsonLinesWriter(tmp_path / "others")
    with pytest.raises(errors.DataError, match="others: another run wrote its lines, or they were"):
        Writers({"json_lines": writer}).rewind({"json_lines": positions[0]}, 20)
    writer.close()

    assert (tmp_path / "others").read_bytes() == others


def test_an_edited_line_before_the_checkpoint_is_refused(tmp_path):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    for updates in range(9):
        writer.write(Point("train", updates, 1, {"loss": 0.5}))
    position = writer.position()
    writer.close()
    content = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(content[:-4] + b"4}\n" + content)
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    with pytest.raises(errors.DataError, match="remove it to begin a new one"):
        writer.rewind(position, 9)
    writer.close()


def test_lines_that_are_not_there_any_more_are_warned_of(tmp_path, caplog):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    writer.rewind({"bytes": 80}, 4)
    writer.close()
    assert caplog.messages == [f"{tmp_path}/metrics.jsonl: 80 logged bytes are missing"]

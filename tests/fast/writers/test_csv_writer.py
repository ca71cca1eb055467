"""metrics.csv: one row for each logged value; it grows, and can be truncated."""

import csv
import json

from andiron.protocols import Point
from andiron.writers import CsvWriter


def rows(run_dir):
    with (run_dir / "metrics.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_a_row_for_each_value_says_where_it_belongs(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.write(Point("train", 20, 1, {"loss": 0.5, "accuracy": 0.25}))
    writer.write(Point("valid", 21, 1, {"loss": 0.75}, whole_epoch=True))
    writer.write(Point("valid", 21, 1, {}, texts={"sample": "to be"}))
    writer.close()
    assert rows(tmp_path) == [
        ["split", "updates", "epoch", "over", "metric", "value"],
        ["train", "20", "1", "window", "loss", "0.5"],
        ["train", "20", "1", "window", "accuracy", "0.25"],
        ["valid", "21", "1", "epoch", "loss", "0.75"],
    ]


def test_numbers_and_names_come_back_exactly(tmp_path):
    values = {"third": 1 / 3, "least": 5e-324, 'f1, "macro"': 0.1}
    writer = CsvWriter(tmp_path)
    writer.write(Point("train", 1, 1, values))
    writer.close()
    assert {row[4]: float(row[5]) for row in rows(tmp_path)[1:]} == values


def test_a_metric_that_comes_later_needs_no_column(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.write(Point("train", 1, 1, {"loss": 0.5}))
    writer.write(Point("train", 2, 1, {"loss": 0.5, "recall/cat": 1.0}))
    writer.close()
    assert [row[4] for row in rows(tmp_path)[1:]] == ["loss", "loss", "recall/cat"]


def test_a_resumed_run_has_each_row_once(tmp_path):
    first = CsvWriter(tmp_path)
    for updates in range(1, 8):
        first.write(Point("train", updates, 1, {"loss": 1 / updates}))
        if updates == 4:
            position = json.loads(json.dumps(first.position()))
    first.close()
    resumed = CsvWriter(tmp_path)
    resumed.rewind(position, 4)
    for updates in range(5, 10):
        resumed.write(Point("train", updates, 1, {"loss": 1 / updates}))
    resumed.close()
    assert [int(row[1]) for row in rows(tmp_path)[1:]] == list(range(1, 10))


def test_half_a_row_of_a_killed_process_is_cut_off(tmp_path):
    path = tmp_path / "metrics.csv"
    header = "split,updates,epoch,over,metric,value\n"
    for before in ("split,upd", header + "train,1,1,win"):
        path.write_text(before)
        writer = CsvWriter(tmp_path)
        writer.write(Point("train", 2, 1, {"loss": 0.5}))
        writer.close()
        assert path.read_text() == header + "train,2,1,window,loss,0.5\n"

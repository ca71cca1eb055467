"""Names made from a user's texts, for every writer and file: different texts stay different."""

import csv
import json
import re

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from andiron.writers.fanout import AcceptedNames
from andiron.protocols import Point
from andiron.writers import CsvWriter, JsonLinesWriter, TensorBoardWriter
from class_names import CLASSES

POINT = Point("valid", 3, 1, {name: float(place) for place, name in enumerate(CLASSES)})


def test_there_are_many_classes():
    assert len({*CLASSES}) == len(CLASSES) > 100


@pytest.mark.parametrize(("refused", "most", "is_refused"), [
    (r"[^A-Za-z0-9_-]|\A\Z", 120, lambda name: not re.fullmatch("[A-Za-z0-9_-]{1,120}", name)),
])  # fmt: skip
@pytest.mark.parametrize("form", ["{}", "valid/{}", "valid/recall/{}"])
def test_names_are_accepted_and_stay_different(refused, most, is_refused, form):
    texts = [form.format(name) for name in CLASSES]
    names = [*map(AcceptedNames("it", refused, most).__getitem__, texts)]

    assert len({*names}) == len(texts)
    assert not [name for name in names if is_refused(name)]
    again = AcceptedNames("it", refused, most)  # of a resumed run
    assert names == [again[text] for text in texts]
    plain = [text for text in texts if re.fullmatch(r"[A-Za-z0-9_]{1,60}", text)]
    changed = [text for text, name in zip(texts, names, strict=True) if name != text]
    assert {*plain} & {*changed} <= {"epoch"}


def test_a_changed_name_is_logged_once(caplog):
    caplog.set_level("INFO", "andiron")
    name = AcceptedNames("the tool", "[<>]")
    for _ in range(3):
        name["<30"]
    assert caplog.messages == [f"the tool: '<30' is named {name['<30']!r}"]


def test_every_class_has_its_value_in_json_lines(tmp_path):
    writer = JsonLinesWriter(tmp_path / "metrics.jsonl")
    writer.write(POINT)
    assert writer.close() is None

    (line,) = (tmp_path / "metrics.jsonl").read_bytes().splitlines()
    record = json.loads(line)
    values = [*record.values()][4:]
    assert [record[name] for name in ("split", "updates", "epoch")] == ["valid", 3, 1]
    assert values == [*map(float, range(len(CLASSES)))]


def test_every_class_has_its_row_in_csv(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.write(POINT)
    assert writer.close() is None

    content = (tmp_path / "metrics.csv").read_bytes()
    with (tmp_path / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(content.splitlines()) - 1 == content.count(b"\n") - 1 == len(CLASSES)
    assert [float(row["value"]) for row in rows] == [*map(float, range(len(CLASSES)))]
    assert len({row["metric"] for row in rows}) == len(CLASSES)


def test_every_class_has_its_tag_in_tensorboard(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write(POINT)
    assert writer.close() is None

    (path,) = (tmp_path / "valid").glob("events*")
    (event,) = [event for event in EventFileLoader(str(path)).Load() if event.summary.value]
    values = {value.tag: value.tensor.float_val[0] for value in event.summary.value}
    assert values.pop("epoch") == 1
    assert [*values.values()] == [*map(float, range(len(CLASSES)))]

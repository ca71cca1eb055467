"""Tables with the habits of other programs and countries: read by their options, or refused by
name; never as other values than they mean.
"""

import bz2
import gzip
import itertools
import json
import logging
import lzma
import math
import re
import shlex
import subprocess
import tarfile
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars
import pytest
import safetensors.numpy
import torch
from strangers_tables import AMERICAN, AMERICAN_OPTIONS, CITIES, GERMAN, GERMAN_OPTIONS

from andiron import data, errors
from andiron.data import ArrayBatcher
from andiron.data.kinds import recorded_kind
from andiron.data.on_disk.column_values import finite, text_of, texts
from andiron.data.on_disk.category_names import places
from andiron.data.on_disk.columns import Reading
from andiron.data.on_disk.csv_file import csv, read
from andiron.data.splitting.described import Described
from refusals import message_of


def load(path, target, **options):
    return csv(**{"path": str(path), "target": target, "valid": 0.2, "split_seed": 0, **options})


def refusal(path, target="y", **options):
    return message_of(errors.DataError, load, path, target, **options)


def all_inputs(splits):
    return torch.cat([part.inputs for part in (splits.train, splits.valid, splits.test)])


@pytest.mark.parametrize("content, encoding, target, options, numbers", [
    (GERMAN, "cp1252", "Klasse", GERMAN_OPTIONS,
     {"Einwohner": [850 + 97 * row for row in range(60) if row != 7],
      "Miete": [row + 0.5 for row in range(60)]}),
    (AMERICAN, "utf-8", "kind", AMERICAN_OPTIONS,
     {"income": [1000.25 + 97 * row for row in range(60) if row != 9]}),
], ids=["German", "American"])  # fmt: skip
def test_a_strangers_table_is_read_by_its_options(
    tmp_path, content, encoding, target, options, numbers
):
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode(encoding))
    assert refusal(path, target)
    splits = load(path, target, **options)
    names = [name for column in splits.facts["encoding"]["columns"] for name in (
        [column["column"]] if column["kind"] in ("number", "date") else
        [f"{column['column']}={value}" for value in column["categories"]])]  # fmt: skip
    for name, expected in numbers.items():
        result = all_inputs(splits)[:, names.index(name)].tolist()
        assert {*map(float, expected)} <= {*result}, name
    assert not any(name.startswith(("owner=true", "owner=True")) for name in names)  # TRUE is first


@pytest.mark.parametrize("text, options, number", [
    ("1.234", {"decimal": ","}, None),
    ("1.5", {"decimal": ","}, None),
    ("1.234", {"decimal": ",", "thousands": "."}, 1234.0),
    ("1.234.567,25", {"decimal": ",", "thousands": "."}, 1234567.25),
    ("1.5", {"decimal": ",", "thousands": "."}, None),
    ("0.850", {"decimal": ",", "thousands": "."}, None),
    ("850", {"decimal": ",", "thousands": "."}, 850.0),
    ("1.234,5", {"decimal": ","}, None),
    ("1,234", {}, None),
    ("1,234", {"thousands": ","}, 1234.0),
    ("-12,345.5", {"thousands": ","}, -12345.5),
    ("1,23", {"thousands": ","}, None),
    ("1\u202f234,5", {"decimal": ",", "thousands": " "}, 1234.5),
    ("1'234.5", {"thousands": "'"}, 1234.5),
    ("12,34,56,789.5", {"thousands": ","}, 123456789.5),
    ("1,23,45", {"thousands": ","}, None),
    ("-1.000,5", {"decimal": ",", "thousands": ".", "missing_values": [-1000.5]}, None),
    ("45 %", {}, None),
    ("-$9.50", {}, None),
    ("-999", {"missing_values": [-999]}, None),
    ("1e3", {}, 1000.0),
    ("\u221212.5", {}, -12.5),
    ("12.50-", {}, -12.5),  # SAP
    ("1.234,5 -", {"decimal": ",", "thousands": "."}, -1234.5),
    ("1\xa0234,5-", {"decimal": ",", "thousands": " "}, -1234.5),
    ("1,234-", {}, None),
    ("-1.5-", {}, None),
    ("2-", {}, None),  # a German grade
    ("1_000", {}, None),
])  # fmt: skip
def test_a_text_is_the_number_that_its_writer_meant_or_none(text, options, number):
    assert finite(polars.Series([text]), Reading(**options)).to_list() == [number]


@pytest.mark.parametrize("column", ["x", "y"])
@pytest.mark.parametrize("odd, option", [
    ("2.400", {"decimal": ","}), ("1,234", {}), ("1,234.50", {}), ("1.234,50", {}), ("45 %", {}),
    ("$9.50", {}),
])  # fmt: skip
def test_a_number_of_another_country_is_refused(tmp_path, column, odd, option):
    rows = [{"x": str(row), "y": str(row + 1)} for row in range(40)]
    rows[3][column] = odd
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(";".join(row.values()) + "\n" for row in rows))
    message = refusal(path, kind="regression", **option)
    assert f"line 5, column {column!r}: {odd!r} is not a finite number" in message
    assert ("if 1,234 is over a thousand" in message) == ("," in odd)


@pytest.mark.parametrize("text", [
    "{0} %", "${0}.50", "{0},{0}00", "{0}.000,5", "{0}€", "EUR {0}.5", "{0}.5 USD",
])  # fmt: skip
def test_a_column_of_numbers_with_signs_is_not_read_as_categories(tmp_path, text):
    path = tmp_path / "t.csv"
    rows = [f"{text.format(row + 1)};{row % 2}" for row in range(40)]
    path.write_text("\n".join(["x;y", *rows]) + "\n", encoding="utf-8")
    assert "column 'x': " in refusal(path) and "is not a finite number" in refusal(path)
    assert load(path, "y", categories=["x"]).facts["encoding"]["columns"][0]["kind"] == "one_hot"


CELLS = [True, False, None, 3, 3.0, -0.5, 1e300, float("nan"), "", " a ", "TRUE", "03", "3.10"]


def test_a_cell_has_one_text_in_python_and_in_a_frame():
    days = [date(2024, 2, 29), datetime(2024, 2, 29, 5, 4, 3, 2), datetime(2024, 2, 29, tzinfo=UTC)]
    more = [*days, time(5, 4), Decimal("1.50"), np.float64(2.5), np.int64(7), np.bool_(True)]
    for value in [*CELLS, *more]:
        plain = value.item() if isinstance(value, np.generic) else value
        (of_frame,) = texts(polars.Series([plain]))
        known = places([of_frame])
        assert known(text_of(value)) == 0 or text_of(value) == of_frame == "", value


def test_a_value_that_is_written_otherwise_is_the_same_category():
    place = places(["1.10", "1.1", "FALSE", "TRUE", "007", "3.0", "2024-01-05"])
    for text, expected in {"1.10": 0, "1.1": 1, "1.100": -1, "True": 3, "false": 2, "7": 4,
                           "3": 5, "2024-01-05T00:00:00.000000": 6, "tru": -1}.items():  # fmt: skip
        assert place(text) == expected, text
    ids = places(["9007199254740993", "12e400", "-9007199254740993"])  # float64 rounds and ends
    others = ("9007199254740992", "9007199254740992.0", "13e400", "inf", "-9007199254740992")
    assert {*map(ids, others)} == {-1} and ids("009007199254740993") == 0


def as_frames(path):
    """The rows of a parquet file in every form that `predict` takes."""
    pandas = pytest.importorskip("pandas")
    frame = polars.read_parquet(path)
    columns = {}
    for name in reversed(frame.columns):
        values = frame[name].to_list()
        columns[name] = pandas.Series(values, dtype="category" if name == "level" else None)
    text = path.with_suffix(".csv")
    frame.write_csv(text)
    other = path.with_suffix(".PQ")
    other.write_bytes(path.read_bytes())
    zipped = path.with_suffix(".csv.gz")
    zipped.write_bytes(gzip.compress(text.read_bytes()))
    of_pandas = pandas.DataFrame(columns)
    named = [row for _, row in of_pandas.iterrows()]
    return [frame, of_pandas, frame.to_dicts(), text, text.read_bytes(), other, frame.lazy(),
            path.read_bytes(), zipped, pandas.read_csv(text, parse_dates=["day"]), named,
            [*of_pandas.itertuples()]]  # fmt: skip


def test_rows_are_the_same_inputs_in_every_form(tmp_path):
    path = tmp_path / "table.parquet"
    number = range(60)
    polars.DataFrame({
        "flag": [None if row == 4 else row % 2 == 0 for row in number],
        "level": [float(row % 4) for row in number],
        "day": [None if row == 8 else datetime(2024, 1, 1 + row % 28, row % 24) for row in number],
        "size": [None if row == 3 else row / 3 for row in number],
        "town": [None if row == 5 else CITIES[row % 3] for row in number],
        "kind": [("a", "b")[row % 2] for row in number],
    }).write_parquet(path)  # fmt: skip
    splits = load(path, "kind", missing="median", categories=["level"])
    data = Described("t", splits.batcher, splits.facts, 64, "float32")
    expected = recorded_kind.of(data).samples(path).dataset.inputs
    assert expected.isfinite().all() and len(expected) == 60
    for rows in as_frames(path):
        result = recorded_kind.of(data).samples(rows).dataset.inputs
        assert torch.equal(result, expected), type(rows)


def test_a_row_of_pandas_is_read_by_its_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    data = Described("t", ArrayBatcher(), {"input_shape": (2,), "columns": ["a", "b"]}, 64)
    row = pandas.Series({"b": 2.0, "a": 1.0})
    assert recorded_kind.of(data).samples(row).dataset.inputs.tolist() == [[1, 2]]
    frame = pandas.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "b"])
    twice = "the data frame has two columns of one name; rename one"
    assert message_of(errors.DataError, recorded_kind.of(data).samples, frame) == twice


@pytest.mark.parametrize(
    "name", ["", "Unnamed: 0", "Unnamed: 0.1", "Unnamed: 0.1.1", "__index_level_0__"]
)
def test_an_index_is_no_feature(tmp_path, caplog, name):
    rows = [f"{row},{row % 7},{row % 2}" for row in range(40)]
    header = f"{name},a,y"
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    splits = load(path, "y")
    assert splits.facts["columns"] == ["a"]
    assert {*all_inputs(splits)[:, 0].tolist()} == {*map(float, range(7))}
    assert "no feature, without a name or with that of a data frame's index" in caplog.text
    if name in header.split(","):  # pandas.read_csv(...).to_parquet, or polars of what pandas wrote
        frame = polars.DataFrame([row.split(",") for row in rows], orient="row")
        frame.columns = header.split(",")
        frame.write_parquet(tmp_path / "t.parquet")
        caplog.clear()
        assert load(tmp_path / "t.parquet", "y").facts["columns"] == ["a"]
        assert f"frame's index: column {name!r}" in caplog.text


@pytest.mark.parametrize("row, place", [("{0} {1} b", 0), ("{1} b ", 2), ('"{0}" {1} "b"', 0)])
def test_a_header_may_lack_the_name_of_the_rows_or_of_nothing(tmp_path, caplog, row, place):
    lines = [row.format(f"name{number}", number) for number in range(40)]
    path = tmp_path / "t.txt"
    lines[20:] = [line.replace("b", "c") for line in lines[20:]]
    path.write_text("\n".join(["x y", *lines]))
    splits = load(path, "y")
    assert splits.facts["columns"] == ["x"] and splits.facts["class_names"] == ["b", "c"]
    assert {*all_inputs(splits)[:, 0].tolist()} == {*map(float, range(40))}
    assert "frame's index: column ''" in caplog.text
    path.write_text("\n".join(["x y", *lines, "1 b"]))
    assert "line 42: has 2 values where the header has 3 names" in refusal(path)


@pytest.mark.parametrize("classes, said", [
    (["Yes", "yes", "No"], "may be one: 'Yes', 'yes'; write them alike"),
    (["1", "1.0", "01", "x"], "may be one: '01', '1', '1.0'; write"),
    (["drama", "drama|comedy", "comedy|horror"], "(multi-label), such as 'comedy|horror'"),
    (["good", "very good", "bad"], ""),
])  # fmt: skip
def test_classes_that_are_alike_or_lists_are_named(tmp_path, caplog, classes, said):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{row / 2},{(classes * 40)[row]}\n" for row in range(40)))
    assert load(path, "y").facts["class_names"] == sorted(classes)
    assert said in caplog.text and bool(said) == bool(caplog.text)


@pytest.mark.parametrize("gap", ["NA", "", "nan", "inf", "many", "1_0"])
def test_a_late_text_among_numbers_changes_no_other(tmp_path, gap):
    rows = [[str(row), str(row / 4), str(row % 2)] for row in range(4000)]
    path = tmp_path / "t.csv"
    rows[2500][1], rows[3000][0] = " 7.5", gap
    path.write_text("^a$,b,y\n" + "".join(",".join(row) + "\n" for row in rows))
    splits = load(path, "y", max_bad_lines=1)
    assert splits.facts["skipped_lines"] == [3002] and splits.facts["columns"] == ["^a$", "b"]
    del rows[3000]
    result = {tuple(row) for row in all_inputs(splits).tolist()}
    assert result == {(float(a), float(b)) for a, b, _ in rows}


@pytest.mark.parametrize("index", [["id"], ["__index_level_0__"], [{"kind": "range"}], ["id", "b"]])
def test_the_index_in_the_metadata_of_pandas_is_no_feature(tmp_path, index):
    names = ["a", *(name for name in index if isinstance(name, str)), "y"]
    frame = polars.DataFrame({name: [row % 2 for row in range(40)] for name in names})
    path = tmp_path / "t.parquet"
    frame.write_parquet(path, metadata={"pandas": json.dumps({"index_columns": index})})
    assert load(path, "y").facts["columns"] == ["a"]
    if isinstance(index[0], str):
        assert load(path, "y", features=[index[0]]).facts["columns"] == [index[0]]


@pytest.mark.parametrize("gap", ["", "nan", "NA", "?", "#N/A", "None", "<NA>", "NULL", "-1.#IND"])
def test_a_missing_label_is_no_class(tmp_path, gap):
    path = tmp_path / "t.csv"
    labels = [gap if row % 9 == 0 else "ab"[row % 2] for row in range(40)]
    path.write_text("x,y\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels)))
    splits = load(path, "y", missing="drop")
    assert (splits.facts["class_names"], splits.facts["dropped_rows"]) == (["a", "b"], 5)
    message = refusal(path)
    assert "column 'y': has no value" in message
    if gap:
        assert load(path, "y", missing_values=[]).facts["class_names"] == sorted(["a", "b", gap])


@pytest.mark.parametrize("labels, is_class", [
    ("123", True), ("024", True), (["-1", "1"], True), (["1.0", "2.0"], True),
    (["0.5", "1.5"], False), ([str(row) for row in range(5, 205)], False),
])  # fmt: skip
def test_whole_numbers_are_classes_for_a_classifier(tmp_path, labels, is_class):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{r},{labels[r % len(labels)]}\n" for r in range(400)))
    facts = load(path, "y", kind="integer_classes").facts
    assert facts.get("class_names") == (sorted(labels, key=float) if is_class else None)


def test_the_line_that_is_not_utf_8_is_named(tmp_path):
    lines = [f"{row},stra\u00dfe,{row % 2}" for row in range(3000)]
    path = tmp_path / "t.csv"
    first = [line.replace("\u00df", "ss") for line in lines[:2000]]
    content = "\n".join(["x,town,y", *first, *lines[2000:]])
    path.write_bytes(content.encode("latin-1"))
    assert "t.csv, line 2002: is not UTF-8 (byte 0xdf)" in refusal(path)
    assert "set data.encoding, such as cp1252" in refusal(path)
    splits = load(path, "y", encoding="cp1252", categories="codes")
    assert "stra\u00dfe" in splits.facts["encoding"]["columns"][1]["categories"]
    for name, pack in itertools.product(("utf-16-le", "utf-16-be"), (bytes, gzip.compress)):
        path.write_bytes(pack(f"\ufeff{content}".encode(name)))
        for options in ({}, {"encoding": "utf-16"}):  # begins with a byte order mark
            again = load(path, "y", categories="codes", **options)
            assert torch.equal(again.train.inputs, splits.train.inputs)
    path.write_bytes(content.encode("utf-16-le"))
    assert "line 1: is not UTF-8" in refusal(path) and "utf-16" in refusal(path)
    unknown = "data.encoding=klingon does not fit (unknown encoding: klingon)"
    assert unknown in refusal(path, encoding="klingon")


@pytest.mark.parametrize("top, row", [
    ("# x,z,y", "{0},{1},{2}"), ("   x  z y", "{0:4} {1:2} {2}"),
    ('x, "z", "y"', '{0}, "{1}", "{2}"'),
])  # fmt: skip
def test_names_are_found_beside_spaces_and_quotes(tmp_path, top, row):
    path = tmp_path / "t.csv"
    rows = [row.format(number, number % 7, "ab"[number % 2]) for number in range(40)]
    path.write_text("\n".join([top, *rows]) + "\n")
    splits = load(path, "y")
    expected = sorted([float(number), number % 7] for number in range(40))
    assert sorted(all_inputs(splits).tolist()) == expected
    assert splits.facts["class_names"] == ["a", "b"]
    data = Described("t", splits.batcher, splits.facts, 64, "float32")
    assert recorded_kind.of(data).samples(path).dataset.inputs.tolist() == expected


TABLE = "x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(40))


@pytest.mark.parametrize("name, start, said", [
    ("t.xlsx", b"PK\3\4rest", "pandas.read_excel('t.xlsx').to_csv('t.csv', index=False)"),
    ("t.XLS", b"\xd0\xcf\x11\xe0", "pandas.read_excel('t.XLS').to_csv('t.csv', index=False)"),
    ("t.dta", b"<stata", "pandas.read_stata('t.dta').to_csv('t.csv', index=False)"),
    ("t.csv.zip", b"PK\3\4rest", "is an archive; unpack it: unzip t.csv.zip"),
    ("t.csv.zst", b"(\xb5/\xfd", "is compressed; unpack it: zstd -d t.csv.zst"),
    ("t.7z", b"7z\xbc\xaf", "is an archive; unpack it: 7z x t.7z"),
    ("t.pkl", b"\x80\4", "is a pickle; write the table as CSV or parquet"),
    ("t.sqlite", b"SQLite format 3\0", "is a database; write the table"),
    ("t.duckdb", b"12345678DUCK", "is a database; write the table"),
    ("t.sql", b"-- MySQL dump 10.13\nCREATE", "is statements of SQL; write the table"),
    ("t.csv", b"version https://git-lfs.github.com/spec/v1\noid", "run git lfs pull"),
    ("t.parquet", b"version https://git-lfs.github.com/spec/v1\noid", "run git lfs pull"),
    ("t.csv", b"\n<!DOCTYPE html><html>", "is a web page, not the file"),
    ("t.pq", b"<HTML lang=en>", "is a web page, not the file"),
    ("t.rds", b"RDX3", "is a file of R; write the table as CSV or parquet"),
])  # fmt: skip
def test_another_format_is_named_with_what_makes_a_table_of_it(tmp_path, name, start, said):
    (tmp_path / name).write_bytes(start + bytes(40))
    message = refusal(tmp_path / name)
    assert said in message.replace(f"{tmp_path}/", "") and "encoding" not in message


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_table_is_read_whatever_its_name(tmp_path, pack):
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "packed").write_bytes(pack(TABLE.encode()))
    whole, packed = load(tmp_path / "t.csv", "y"), load(tmp_path / "packed", "y")
    assert torch.equal(whole.train.inputs, packed.train.inputs)
    with tarfile.open(tmp_path / "t.tar", "w") as archive:
        archive.add(tmp_path / "t.csv", "t.csv")
    (tmp_path / "t.tar.packed").write_bytes(pack((tmp_path / "t.tar").read_bytes()))
    assert f"unpack it: tar -xf {tmp_path / 't.tar.packed'}" in refusal(tmp_path / "t.tar.packed")
    (tmp_path / "short").write_bytes(pack(TABLE.encode())[:-9])
    assert "short: cannot be read" in refusal(tmp_path / "short")


ODD = {
    "list": [[1]] * 40, "struct": [{"a": 1}] * 40, "bytes": [b"a"] * 40,
    "duration": polars.Series([3] * 40, dtype=polars.Duration),
    "array": polars.Series([[1, 2]] * 40, dtype=polars.Array(polars.Int64, 2)),
    "map": polars.Series([{"a": 1}] * 40, dtype=polars.Map(polars.String, polars.Int64)),
    "period": polars.Series([600] * 40).ext.to(
        polars.Extension("pandas.period", polars.Int64, '{"freq": "M"}')
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_a_column_without_cells_is_named_or_left_out(tmp_path, kind):
    frame = polars.DataFrame({"a": range(40), kind: ODD[kind], "y": [0.0, 1.0] * 20})
    path = tmp_path / "t.parquet"
    frame.write_parquet(path)
    for options in ({"exclude": [kind]}, {"features": ["a"]}):
        assert load(path, "y", **options).facts["columns"] == ["a"]
    assert f"data.exclude=[{kind}]" in refusal(path)


def test_numbers_of_the_date_format_are_dates_if_all_are(tmp_path, caplog):
    path = tmp_path / "t.csv"
    numbers = [20240128 + row // 20 * 82 for row in range(40)]  # 28 January, 10 February
    numbers[5] = ""
    rows = [f"{number},{row % 3},{row % 2}" for row, number in enumerate(numbers)]
    path.write_text("\n".join(["day,x,y", *rows]) + "\n")
    splits = load(path, "y", date_format="%Y%m%d", missing="drop")
    assert {*all_inputs(splits)[:, 0].tolist()} == {19750.0, 19763.0} and not caplog.text
    path.write_text(path.read_text().replace("20240210", "20250210"))
    load(path, "y", missing="drop")
    assert "column 'day' looks like dates" in caplog.text
    data = Described("t", splits.batcher, splits.facts, 64, "float32")
    for row in ({"day": 20240210, "x": 1}, {"day": "2024-02-10", "x": "1"}):
        assert recorded_kind.of(data).samples([row]).dataset.inputs.tolist() == [[19763, 1]]
    path.write_text(path.read_text() + "20250230,1,1\n")
    assert "no column of" in refusal(path, date_format="%Y%m%d", missing="drop")


def test_decimals_and_times_of_parquet_are_values(tmp_path):
    frame = polars.DataFrame({
        "money": polars.Series([f"{row}.10" for row in range(40)]).cast(polars.Decimal(9, 2)),
        "small": polars.Series([row / 10 for row in range(40)], dtype=polars.Float32),
        "large": polars.Series(range(40), dtype=polars.Int128),
        "hour": [time(row % 3) for row in range(40)], "y": [0.0, 1.0] * 20,
    })  # fmt: skip
    frame.write_parquet(tmp_path / "t.parquet")
    splits = load(tmp_path / "t.parquet", "y")
    rows = {tuple(row[:2]) for row in all_inputs(splits).tolist()}
    single = torch.tensor([[row + 0.1, row / 10] for row in range(40)]).tolist()
    assert rows == {*map(tuple, single)} and splits.input_shape == (6,)


def test_a_number_far_from_zero_is_standardised_in_float64(tmp_path):
    seconds = [1_700_000_000 + 997.25 * row for row in range(100)]
    path = tmp_path / "t.csv"
    path.write_text(
        "time,y\n" + "".join(f"{second},{row % 2}\n" for row, second in enumerate(seconds))
    )
    splits = load(path, "y")
    raw = splits.train.__getitems__(range(len(splits.train)))
    result = splits.batcher(raw, torch.device("cpu")).inputs[:, 0].double()
    every = torch.tensor(seconds, dtype=torch.float64)
    offset = splits.facts["encoding"]["columns"][0]["offset"]
    rows = [int(torch.argmin((every - offset - input_).abs())) for input_ in raw.inputs[:, 0]]
    of_train = every[rows]
    expected = (of_train - of_train.mean()) / of_train.std(correction=0)
    assert (result - expected).abs().max() < 1e-6 and math.isclose(offset, of_train.mean())
    data = Described("t", splits.batcher, splits.facts, 64, "float32")
    again = recorded_kind.of(data).samples([{"time": value} for value in of_train.tolist()])
    assert torch.equal(again.dataset.inputs, raw.inputs)


def test_a_test_file_is_the_test_set(tmp_path):
    for name, rows in (("train.csv", range(40)), ("test.csv", range(40, 60))):
        text = "x,town,y\n" + "".join(f"{r},{CITIES[r % 3]},{'ab'[r % 2]}\n" for r in rows)
        (tmp_path / name).write_text(text)
    alone = load(tmp_path / "train.csv", "y")
    splits = load(tmp_path / "train.csv", "y", test=str(tmp_path / "test.csv"))
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (32, 8, 20)
    assert sorted(splits.test.inputs[:, 0].tolist()) == [*map(float, range(40, 60))]
    assert splits.fingerprint != alone.fingerprint
    both = load(tmp_path / "train.csv", "y", test=str(tmp_path / "test.csv"), valid="test")
    assert (len(both.train), both.valid is both.test) == (40, True)


def test_categories_that_the_training_rows_lack_are_named_in_other_files(tmp_path, caplog):
    for name, towns in (("train.csv", ("Bonn", "Rome")), ("test.csv", ("bonn", "Rome"))):
        rows = "".join(f"{row},{towns[row % 2]},{'ab'[row % 2]}\n" for row in range(40))
        (tmp_path / name).write_text("x,town,y\n" + rows)
    test = str(tmp_path / "test.csv")
    for options in ({"test": test}, {"valid_sets": {"other": test}}):
        caplog.clear()
        load(tmp_path / "train.csv", "y", **options)
        result = "column 'town' has unknown categories in 20 of 40 rows: 'bonn'"
        assert f"{test}: {result}" in caplog.text


def test_bad_rows_and_numbers_beyond_float32_have_no_prediction(tmp_path):
    facts = {"input_shape": (2,), "columns": ["a", "b"]}
    data = Described("t", ArrayBatcher(), facts, 64, "float32")
    path = tmp_path / "new.csv"
    path.write_text("a,b\n1,2\n,3\n4,1e39\nmany,5\n6,7,8\n8,9\n")
    samples = recorded_kind.of(data).samples(path)
    assert samples.dataset.inputs.tolist() == [[1, 2], [4, math.inf], [8, 9]]
    bad = "\n".join(samples.problems)
    faults = {3: "has no value", 5: "'many' is not a finite number", 6: "has 3 values"}
    for line, why in faults.items():
        assert f"line {line}" in bad and why in bad
    assert samples.unreadable.keys() == {1} and "line 4: input 'b' is too large" in bad


def test_own_missing_values_count_in_every_column(tmp_path):
    rows = [f"{'-' if row == 4 else row},{-999 if row == 7 else row},{'-' if row % 5 else 'u'},"
            f"{row % 2}" for row in range(40)]  # fmt: skip
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b,c,y", *rows]) + "\n")
    splits = load(path, "y", missing="mean", missing_values=["-", -999])
    first, second, third = splits.facts["encoding"]["columns"]
    assert third["categories"] == ("u",) and 0 < second["fill"] < 40 and 0 < first["fill"] < 40
    assert "'-' is not a finite number" in refusal(path)


def test_a_label_that_only_differs_in_case_is_one_boolean(tmp_path, caplog):
    words = ["TRUE", "true", "False", "FALSE"]
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{row},{words[row % 4]}\n" for row in range(40)))
    with caplog.at_level(logging.INFO):
        splits = load(path, "y")
    assert splits.facts["class_names"] == ["FALSE", "TRUE"]


def test_rows_of_nothing_are_ignored_with_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1;2\n;\n3;4\n")
    table = read(path, features=["a", "b"], missing="drop")
    assert [*zip(*table.frame.values())] == [(1, 2), (3, 4)]


@pytest.mark.parametrize("name", ["index", "level_0", "row_nr", "id", "Kunden-Nr."])
@pytest.mark.parametrize(
    "numbers",
    [
        range(40), range(1, 41), range(0, 120, 3), [9, *range(20, 59)], range(48, 8, -1),
        [row * 7 % 41 for row in range(40)],
    ],
)
def test_a_feature_that_counts_the_rows_is_named(tmp_path, caplog, name, numbers):
    rows = [f"{number},{row % 7},{row > 20:d}" for row, number in enumerate(numbers)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"{name},a,y", *rows]) + "\n")
    assert load(path, "y").facts["columns"] == [name, "a"]
    assert f"t.csv: column {name!r} has another whole number in each row" in caplog.text
    assert f"set 'data.exclude=[\"{name}\"]'" in caplog.text
    caplog.clear()
    load(path, "y", exclude=[name])
    load(path, "y", features=[name, "a"])
    assert "another whole number" not in caplog.text


def test_the_remedy_for_a_counter_keeps_what_is_left_out_already(tmp_path, caplog):
    rows = [f"{row},n,{100 + row},{row % 7},{row % 2}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["id,note,number,a,y", *rows]) + "\n")
    load(tmp_path / "t.csv", "y", exclude=["note"])
    assert """set 'data.exclude=["note", "id", "number"]'""" in caplog.text


@pytest.mark.parametrize("column", [
    [row % 39 for row in range(40)], [row / 4 for row in range(40)],
    [row * 97 % 101 for row in range(40)], [f"2024-01-{1 + row:02d}" for row in range(31)],
    [f"t{row}" for row in range(10)] * 4,
])  # fmt: skip
def test_other_features_are_not_taken_for_a_counter_of_rows(tmp_path, caplog, column):
    rows = [f"{value},{row % 2}" for row, value in enumerate(column)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["index,y", *rows]) + "\n")
    load(path, "y")
    assert "another whole number" not in caplog.text


@pytest.mark.parametrize("space, mark, typed", [
    (" ", " ", '"data.thousands=\' \'"'), ("\xa0", " ", '"data.thousands=\' \'"'),
    ("\u202f", " ", '"data.thousands=\' \'"'),
    ("'", "'", r'''"data.thousands=\"'\""'''), ("\u2019", "'", r'''"data.thousands=\"'\""'''),
])  # fmt: skip
def test_spaces_and_signs_in_numbers_lead_to_the_option_that_reads_them(
    tmp_path, space, mark, typed
):
    path = tmp_path / "t.csv"
    path.write_text("a;y\n" + "".join(f"{row};{row + 1}{space}500,5\n" for row in range(40)))
    options = {"decimal": ",", "kind": "regression"}
    assert f"set {typed} if 1{mark}234 is over a thousand" in refusal(path, **options)
    assert typed not in refusal(path, thousands=".", **options)
    splits = load(path, "y", thousands=mark, **options)
    assert splits.train.targets.min() >= 1500.5


@pytest.mark.parametrize("title", [
    "Sales 2024\n", "\n# Bonn, 3 May\n\n", "x,price (EUR),,\n", "Sales,\n", "Sales;\n", "Sales\t\n",
])  # fmt: skip
@pytest.mark.parametrize("row, encoding, given", [
    ("{0};{1}", "utf-8", {}), ('"{0}","{1}"', "cp1250", {"encoding": "cp1250"}),
    ("{0}\t{1} ", "utf-16", {}), ("{0};{1}", "utf-16-le", {"encoding": "utf-16-le"}),
])  # fmt: skip
def test_names_below_a_title_are_refused_with_the_command_that_removes_it(
    tmp_path, title, row, encoding, given
):
    path = tmp_path / "of my sales.csv"
    cells = [("price", "price (EUR)"), *((number, 3 * number + 1) for number in range(40))]
    path.write_text(title + "".join(f"{row.format(*pair)}\n" for pair in cells), encoding=encoding)
    message = refusal(path, "price", features=["price (EUR)"], **given)
    assert f", line {title.count(chr(10)) + 1}: has the names of the columns, which " in message
    subprocess.run(message.partition("above: ")[2], shell=True, cwd=tmp_path, check=True)
    path, given = tmp_path / "table.csv", {**given, "kind": "regression"}
    splits = load(path, "price", features=["price (EUR)"], **given)
    assert sorted(all_inputs(splits)[:, 0].tolist()) == [3 * number + 1 for number in range(40)]
    assert "has no column 'rice'; did you mean 'price'?" in refusal(path, "rice", **given)
    assert "has no column '22'" in refusal(path, "22", **given)  # a cell of line 9


@pytest.mark.parametrize("first, options, columns", [
    ("4,5,4,0", {}, "its first line looks like data"),
    ("5.1,3.5,1.4,0", {}, "its first line looks like data"),
    ("5.1,3.5,1.4,0", {"target": "1.4"}, "its first line looks like data"),
    ("5.1,3.5,1.4,0", {"header": ["a", "b", "c", "y"]}, ["a", "b", "c"]),
    ("2019,2020,2021,y", {}, ["2019", "2020", "2021"]),
])  # fmt: skip
def test_a_first_line_of_data_is_no_header(tmp_path, first, options, columns):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([first, *(f"{r},{r % 3},7,{r % 2}" for r in range(40))]) + "\n")
    given = {"target": "y", **options}
    if isinstance(columns, str):
        assert columns in refusal(path, **given) and "data.header=" in refusal(path, **given)
    else:
        splits = load(path, **given)
        assert splits.facts["columns"] == columns
        rows = len(splits.train) + len(splits.valid) + len(splits.test)
        assert rows == 40 + ("header" in options)


def test_the_printed_line_makes_a_table_that_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = polars.read_csv(TABLE.encode())
    frame.write_ipc("a.arrow")
    frame.write_ipc_stream("b.arrow")
    frame.write_ndjson("c.jsonl")
    frame.write_avro("d.avro")
    np.save("e.npy", frame.to_numpy())
    inputs = np.asfortranarray(np.arange(80.0).reshape(40, 2))  # safetensors writes it as it lies
    np.savez("f.npz", inputs=inputs, targets=np.arange(40) % 2)
    Path("g").mkdir()
    for part in range(2):
        frame[part * 20 : part * 20 + 20].write_parquet(f"g/part-{part}.parquet")
    for name in ("a.arrow", "b.arrow", "c.jsonl", "d.avro", "e.npy", "f.npz", "g"):
        code = re.search('python -c "(.*)"$', refusal(Path(name)))[1]
        exec(code, {})
        stem = Path(name).stem
        if name == "f.npz":
            assert np.array_equal(safetensors.numpy.load_file("f.safetensors")["inputs"], inputs)
            assert len(data.safetensors(path="f.safetensors", valid=0.2, split_seed=0).train)
        else:
            target = "column_1" if name == "e.npy" else "y"
            assert len(load(f"{stem}.parquet", target).train) == 28
    (tmp_path / "g" / "_delta_log").mkdir()
    assert refusal(Path("g")).startswith("g: is a table of Delta; write the table as CSV")
    assert refusal(tmp_path).startswith(f"{tmp_path}: is a folder of parquet files")


@pytest.mark.parametrize("suffix, module", [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_remedies_of_a_packed_table_work_one_after_the_other(tmp_path, suffix, module):
    rows = "".join(f"{row},{row + 1},{row % 2}\n" for row in range(40))
    path = tmp_path / f"t.csv.{suffix}"
    path.write_bytes(module.compress(f"Clay,,\nN,N,y\n{rows}".encode()))
    command = refusal(path).partition("above: ")[2]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    remedy = refusal(tmp_path / "table.csv").partition("its own: ")[2]
    command, _, option = remedy.partition(", which is read with ")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    splits = load(tmp_path / "table2.csv", "y", header=json.loads(option.strip("'").split("=")[1]))
    assert splits.facts["columns"] == ["N.1", "N.2"]
    assert sorted(all_inputs(splits)[:, 1].tolist()) == [*map(float, range(1, 41))]


def test_bytes_below_a_plain_title_lead_to_the_encoding(tmp_path):
    path = tmp_path / "t.csv"
    rows = "".join(f"{row},{row % 2}\n" for row in range(40))
    path.write_text(f"Sales,\nČíslo,y\n{rows}", encoding="cp1250")
    said = f"{path}, line 2: is not UTF-8 (byte 0xc8); set data.encoding, such as cp1252, "
    assert refusal(path).startswith(said)


def test_a_file_in_utf_8_is_named_if_another_encoding_reads_it(tmp_path, caplog):
    path = tmp_path / "t.csv"
    for encoding in ("cp1250", "utf-8"):
        path.write_text("x,y\n" + "Gdańsk,1\nKraków,0\n" * 20, encoding=encoding)
        load(path, "y", encoding="cp1250")
    (line,) = (line for line in caplog.messages if "UTF-8" in line)
    assert line.endswith(f"iconv -f utf-8 -t cp1250 {path} > new.csv")


def test_numbers_with_signs_lead_to_the_command_that_removes_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{row}%,{row % 2}\n" for row in range(40)))
    assert "remove the signs, as sed -E 's/(%) ?([0-9])/" in refusal(path)
    path.write_text(path.read_text().replace("%", "").replace("7,", "many,"))
    assert "remove the signs" not in refusal(path)


@pytest.mark.parametrize("written, number", [
    ("<{}", 1), (">= {}", 1), ("\u2264{}", 1), ("{}+", 1), ("({}.50)", -1),
])  # fmt: skip
def test_limits_and_accounts_lead_to_the_command_that_leaves_numbers(tmp_path, written, number):
    path = tmp_path / "t.csv"
    cells = ["hemolyzed" if row % 9 == 0 else written.format(row) if row % 3 == 0 else f"{row}"
             for row in range(60)]  # fmt: skip
    at = [f"2025-10-01T07:{row:02}+02:00" for row in range(60)]
    rows = (f"{cells[row]},{at[row]},of (2019),{row % 2}\n" for row in range(60))
    path.write_text("x,at,note (1),y\n" + "".join(rows))
    said = refusal(path)
    command = shlex.split(re.search("as (sed .+?) does", said)[1])
    path.write_bytes(subprocess.check_output([*command, path]))
    assert "data.missing_values=[\"hemolyzed\"]" in said
    splits = load(path, "y", missing="drop", missing_values=["hemolyzed"])
    assert splits.facts["columns"] == ["x", "at", "note (1)"]
    assert path.read_text().count("of (2019)") == 60
    wanted = [float(text) if text.isdigit() else number * float(text.strip("<>=\u2264+() "))
              for text in cells if text != "hemolyzed"]  # fmt: skip
    assert sorted(all_inputs(splits)[:, 0].tolist()) == sorted(wanted)


def test_a_header_that_repeats_is_no_row(tmp_path):
    header, path = "Device,Shift,y", tmp_path / "t.csv"
    classes = ("bad", "ok", "ok")
    rows = [f"{'pf'[row % 2]},{'dn'[row % 3 > 0]},{classes[row % 3]}" for row in range(40)]
    path.write_text("\n".join([header, *rows[:20], header, *rows[20:], header]))
    assert "line 22, column 'Device': 'Device' is the name of the column\n" in refusal(path)
    splits = load(path, "y", max_bad_lines=2)
    assert splits.facts["class_names"] == ["bad", "ok"] and splits.facts["input_shape"] == (4,)
    recorded = recorded_kind.of(Described("t", splits.batcher, splits.facts, 64, "float32"))
    assert "2 lines cannot be used" in recorded.samples(path).refused[0]
    rows = [f"{row},{'dn'[row % 2]},{'yn'[row % 2]}" for row in range(18)]
    path.write_text("\n".join([header, *rows, header]))
    remedy = "correct or remove them, or skip them with data.max_bad_lines=1"
    assert refusal(path).endswith(f"'Device' is the name of the column; {remedy}")


def test_categories_that_differ_in_case_are_named(tmp_path, caplog):
    path = tmp_path / "t.csv"
    wards, flags = ("ED", "ed", "ICU"), ("TRUE", "true")
    rows = (f"{wards[row % 3]},{flags[row % 2]},{row % 2}\n" for row in range(40))
    path.write_text("ward,is_new,y\n" + "".join(rows))
    load(path, "y")
    (said,) = (line for line in caplog.messages if "written differently" in line)
    assert said.endswith(
        "column 'ward': texts that are written differently, and may be one: 'ED', 'ed'; write "
        "them alike"
    )


def test_signs_of_another_encoding_are_removed_after_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{row} €,{row % 2}\n" for row in range(40)), "cp1252")
    line = re.search("as (iconv .+) does, and then", refusal(path, encoding="cp1252"))[1]
    path.write_bytes(subprocess.check_output(line.replace(" |", f" {path} |", 1), shell=True))
    assert len(all_inputs(load(path, "y"))) == 40


@pytest.mark.parametrize("price", ["R$ {}", "{} zł", "{} kr", "CHF {}", "-$ {}", "{} €"])
def test_currencies_are_removed_beside_numbers_only(tmp_path, price):
    path, sign = tmp_path / "t.csv", price.replace("{}", "").strip(" -")
    rows = (f"{price.format(row)};{sign};Sankrit EUROPA;{row % 2}\n" for row in range(60))
    path.write_text("x;currency;place;y\n" + "".join(rows), "utf-8")
    line = re.search("as (sed .+) does", refusal(path))[1]
    path.write_bytes(subprocess.check_output(f"{line} {path}", shell=True))
    splits = load(path, "y")
    assert {*all_inputs(splits)[:, 0].abs().tolist()} == {*map(float, range(60))}
    texts = [column["categories"] for column in splits.facts["encoding"]["columns"][1:]]
    assert texts == [(sign,), ("Sankrit EUROPA",)]


def test_points_that_may_divide_thousands_are_named_with_the_option(tmp_path, caplog):
    path = tmp_path / "t.csv"
    numbers = ["987", "12.345", "-", "1.001", "7"] * 8
    rows = (f"{number};{row % 2}\n" for row, number in enumerate(numbers))
    path.write_text("x;y\n" + "".join(rows))
    given = {"missing_values": ["-"], "missing": "drop"}
    load(path, "y", **given)
    assert f"{path}: column 'x' has numbers as 1.234 and whole ones below 1000; set" in caplog.text
    assert """set "data.thousands='.'" if 1.234 is over a thousand""" in refusal(path, decimal=",")
    caplog.clear()
    splits = load(path, "y", thousands=".", **given)
    assert {*all_inputs(splits)[:, 0].tolist()} == {987.0, 12345.0, 1001.0, 7.0}
    path.write_text("x;y\n" + "".join(f"{row / 8:.3f};{row % 2}\n" for row in range(40)))
    load(path, "y")
    assert "1.234" not in caplog.text

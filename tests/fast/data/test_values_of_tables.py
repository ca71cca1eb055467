"""Values of tables that were something else without a word: dates, categories, targets, test sets.
"""

import logging
from datetime import date, datetime, timedelta

import numpy as np
import polars
import pytest
import torch

from andiron import errors
from andiron.data.kinds import recorded_kind
from andiron.data.on_disk.category_names import places
from andiron.data.on_disk.csv_file import csv
from andiron.data.splitting.described import Described
from andiron.tasks import Regressor
from refusals import message_of

DAY = datetime(2024, 5, 13, 14, 30, 5)
WRITTEN = [
    "%b %d %Y", "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y", "%d %B %Y", "%d %b %Y", "%d-%b-%y",
    "%Y-%b-%d", "%b %Y", "%m/%d/%Y %I:%M %p", "%d/%m/%Y %I:%M:%S %p", "%Y-%m-%d %I:%M %p",
    "%d.%m.%Y", "%d/%b/%Y:%H:%M:%S", "%a, %d %b %Y", "%A, %B %d, %Y", "%d %b %Y %H:%M",
    "%m/%d/%y %H:%M", "%d/%b/%Y:%H:%M:%S %z", "%a, %d %b %Y %H:%M:%S %z", "%Y-%m", "%Y-%j",
    "%Y/%m/%d", "%Y年%m月%d日", "%H:%M:%S",
]  # fmt: skip

CPU = torch.device("cpu")


def load(path, target="y", **options):
    given = {"path": str(path), "target": target, "valid": 0.2, "split_seed": 0, **options}
    return csv(**given)


def inputs(splits):
    return torch.cat([part.inputs for part in (splits.train, splits.valid, splits.test)])


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "kind", ["int96", "nanoseconds", "microseconds", "milliseconds", "zone", "days"]
)
def test_dates_of_parquet_are_their_days_in_every_type(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    days = [date(9999, 12, 31), date(1600, 1, 1), date(2024, 5, 31), date(1, 1, 1)] * 10
    if kind == "nanoseconds":
        days = [date(2024, 5, 31), date(1700, 1, 1), date(2262, 4, 11), date(1970, 1, 1)] * 10
    types = {"days": pyarrow.date32(), "nanoseconds": pyarrow.timestamp("ns"),
             "milliseconds": pyarrow.timestamp("ms"),
             "zone": pyarrow.timestamp("us", "Asia/Kolkata")}  # fmt: skip
    columns = {"until": pyarrow.array(days, pyarrow.date32()), "y": ["a", "b", "b", "a"] * 10}
    if kind != "days":
        moments = [datetime(day.year, day.month, day.day) for day in days]
        columns["until"] = pyarrow.array(moments, types.get(kind, pyarrow.timestamp("us")))
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet", store_schema=False,
                        use_deprecated_int96_timestamps=kind == "int96")  # fmt: skip
    result = {*inputs(load(tmp_path / "t.parquet"))[:, 0].tolist()}
    assert result == {float((day - date(1970, 1, 1)).days) for day in days}


@pytest.mark.parametrize("dtype", ["date", "timestamp"])
@pytest.mark.parametrize("odd", ["'infinity'", "'-infinity'", "'20000-01-01'", "'10000-01-01'",
                                 "'0044-03-15 (BC)'"])  # fmt: skip
def test_a_date_without_a_year_of_the_calendar_is_a_bad_row(tmp_path, dtype, odd):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql(f"copy (select i % 2 as y, case when i = 7 then {odd}::{dtype} else "
               f"'2024-01-01'::{dtype} + to_days(i::int) end as until from range(40) t(i)) "
               f"to '{path}' (format parquet)")  # fmt: skip
    message = message_of(errors.DataError, load, path)
    assert "t.parquet, row 7, column 'until': '" in message and "is not a date YYYY-" in message
    splits = load(path, max_bad_lines=1)
    assert splits.facts["skipped_lines"] == [7]
    data = Described("t", splits.batcher, splits.facts, 64, "float32")
    samples = recorded_kind.of(data).samples(path)
    assert len(samples.names) == 39 and "row 7, column 'until'" in samples.problems[0]
    as_text = load(path, categories=["until"]).facts["encoding"]["columns"][0]
    assert len(as_text["categories"]) > 20


@pytest.mark.parametrize("column, kind", [
    ("to_hours(i::int)", "Struct"), ("interval (i) day", "Struct"), ("to_months(i::int)", "Struct"),
    ("'a'::blob", "Binary"), ("[i]", "List"), ("{'a': i}", "Struct"),
])  # fmt: skip
def test_a_column_that_cannot_be_used_is_named_or_left_out(tmp_path, column, kind):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql(f"copy (select i * 1.5 as x, {column} as gap, i % 2 as y from range(40) t(i)) "
               f"to '{path}' (format parquet)")  # fmt: skip
    message = message_of(errors.DataError, load, path)
    assert f"cannot use the columns 'gap' ({kind}" in message
    assert message.endswith("leave them out with data.exclude=[gap], or convert them")
    assert load(path, exclude=["gap"]).facts["columns"] == ["x"]
    assert load(path, features=["x"]).facts["columns"] == ["x"]


def test_a_decimal_of_more_digits_is_named_or_left_out(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    wide = pyarrow.array([None] * 40, pyarrow.decimal256(50, 3))
    table = pyarrow.table({"x": range(40), "wide": wide, "y": [0, 1] * 20})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert "'wide' (Decimal(precision=50, scale=3))" in message_of(
        errors.DataError, load, tmp_path / "t.parquet"
    )
    assert load(tmp_path / "t.parquet", exclude=["wide"]).facts["columns"] == ["x"]


@pytest.mark.parametrize("values, written, others", [
    (polars.Series([0.1, 2.7, 1e-3, 3.0]), ["0.1", "2.70", "1e-3", "3.0"], [0.1, 2.7, 0.001, 3]),
    (polars.Series([1e10, 16777216.0], dtype=polars.Float32), ["1e10", "16777216"],
     [np.float32(1e10), 16777216]),
])  # fmt: skip
def test_a_category_is_one_whatever_it_comes_from(tmp_path, values, written, others):
    number = 60 // len(values)
    frame = polars.DataFrame({"c": polars.concat([values] * number)})
    frame = frame.with_columns(y=polars.Series([0, 1] * 30)[: len(frame)])
    frame.write_parquet(tmp_path / "t.parquet")
    splits = load(tmp_path / "t.parquet", categories=["c"])
    data = Described("t", splits.batcher, splits.facts, 64, "float32")
    expected = recorded_kind.of(data).samples(frame).dataset.inputs
    assert expected.sum() == len(frame)
    pandas = pytest.importorskip("pandas")
    tables = [frame.to_dicts(), [{"c": value} for value in written * number],
              [{"c": other} for other in others * number],
              pandas.DataFrame({"c": frame["c"].to_list()})]  # fmt: skip
    for table in tables:
        assert torch.equal(recorded_kind.of(data).samples(table).dataset.inputs, expected)
    frame.write_csv(tmp_path / "t.csv")
    again = recorded_kind.of(data).samples(tmp_path / "t.csv").dataset.inputs
    assert torch.equal(again, expected)


def test_numbers_that_float32_rounds_together_are_two_categories():
    place = places(["16777217", "0.1000000001", "0.1", "9007199254740993"])
    assert [place("16777216"), place("0.1000000001"), place("0.10")] == [-1, 1, 2]


def test_large_targets_keep_what_features_keep(tmp_path):
    generator = np.random.default_rng(0)
    for center, spread in ((1.7e9, 25_000.0), (1.7e9, 50.0), (3e12, 1e6), (-2e9, 1e4), (1e6, 5.0)):
        seconds = (center + spread * generator.standard_normal(200)).round(3)
        path = tmp_path / "t.csv"
        rows = "".join(f"{row % 17},{value!r}\n" for row, value in enumerate(seconds.tolist()))
        path.write_text("i,t\n" + rows)
        splits = load(path, "t", kind="regression", test=0.1)
        (offset,) = splits.facts["target_offset"]
        whole = torch.cat([part.targets for part in (splits.train, splits.valid, splits.test)])
        result = (whole[:, 0].double() + offset).sort().values
        lost = (result - torch.tensor(seconds).sort().values).abs().max()
        assert lost < spread * 1e-6
        task = Regressor(
            torch.nn.Linear(1, 1), **{key: splits.facts[key] for key in
                                      ("target_mean", "target_std", "target_offset")}
        )  # fmt: skip
        batch = splits.batcher(splits.train.__getitems__(range(50)), CPU)
        item = task.predict(batch)
        exact = batch.targets.double() + offset
        assert torch.equal(item.targets, exact) and item.output.dtype == torch.float64
        mean, std = splits.facts["target_mean"][0], splits.facts["target_std"][0]
        scaled = task.network(batch.inputs).double()
        assert (item.output - (mean + std * scaled)).abs().max() < spread * 1e-5
        reference = ((scaled - (exact - mean) / std) ** 2).mean()
        assert item.loss.item() == pytest.approx(reference.item(), rel=1e-5)


def test_targets_that_float32_holds_have_no_offset(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("i,t\n" + "".join(f"{row % 17},{1990 + row % 30}\n" for row in range(200)))
    splits = load(path, "t", kind="regression")
    assert "target_offset" not in splits.facts
    assert sorted({*splits.train.targets[:, 0].tolist()})[0] == 1990.0


@pytest.mark.parametrize("date_format", WRITTEN)
def test_a_column_of_dates_is_named_with_the_option(tmp_path, caplog, date_format):
    zone = "+0000" if "%z" in date_format else ""
    moments = [DAY + timedelta(days=9 * row, hours=row) for row in range(40)]
    texts = [moment.strftime(date_format.replace("%z", zone)) for moment in moments]
    polars.DataFrame({"day": texts, "x": range(40), "y": [0, 1] * 20}).write_csv(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open("a") as file:
        file.write("sum,780,1\n")
    load(tmp_path / "t.csv", exclude=["x"])
    (actual,) = (
        warning for warning in warnings(caplog) if "looks like dates, and is not read" in warning
    )
    assert "set data.date_format" in actual
    caplog.clear()
    splits = load(tmp_path / "t.csv", exclude=["x"], date_format=date_format, max_bad_lines=1)
    assert splits.facts["encoding"]["columns"][0]["kind"] == "date"
    assert "looks like dates" not in caplog.text


def test_a_time_beside_dates_of_a_given_format_is_named_with_what_can_be_done(tmp_path, caplog):
    rows = [f"{row % 28 + 1:02}.01.2025,{row % 24:02}:15,{row % 2}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["day,time,y", *rows]) + "\n")
    load(tmp_path / "t.csv", date_format="%d.%m.%Y")
    (actual,) = warnings(caplog)
    assert "column 'time' looks like dates, and is not read as such; data.date_format is" in actual
    assert """'data.exclude=["time"]'""" in actual
    assert """'data.categories=["time"]'""" in actual
    caplog.clear()
    load(tmp_path / "t.csv", date_format="%d.%m.%Y", categories=["time"])
    assert warnings(caplog) == []


def test_names_of_months_in_another_language_are_taken_for_dates(tmp_path, caplog):
    texts = ["12. března 2023", "1 août 2021"]
    rows = [f"{texts[row % 2]},{row % 2}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    load(tmp_path / "t.csv")
    assert "looks like dates" in caplog.text and "names of months are English" in caplog.text


@pytest.mark.parametrize("texts", [
    ["May", "June", "July"], ["Jan Smith", "Marc Decker"], ["10-20", "20-30"], ["3 of 4", "1 of 4"],
    ["v1.2.3", "v1.2.4"], ["Mayor", "Marshal"],
    ["2019-20", "2020-21"], ["1990-1995", "1995-2000"], ["2019.5", "2020.5"],
])  # fmt: skip
def test_other_texts_are_not_taken_for_dates(tmp_path, caplog, texts):
    rows = [f"{texts[row % len(texts)]},{row % 2}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    load(tmp_path / "t.csv")
    assert "looks like dates" not in caplog.text


@pytest.mark.parametrize("kind", ["itself", "copy", "sorted", "a part", "parquet"])
@pytest.mark.parametrize("target", ["y", "z"])
def test_test_rows_that_are_trained_on_are_named(tmp_path, caplog, kind, target):
    draws = np.random.default_rng(0)
    frame = polars.DataFrame({
        "x": draws.normal(size=60), "z": draws.normal(size=60),
        "town": ["Bonn", "Rome", "Oslo"] * 20, "y": ["a", "b"] * 30,
    })  # fmt: skip
    frame.write_csv(tmp_path / "t.csv")
    other = frame.sort("x")
    if kind == "a part":
        new = frame.with_columns(polars.col("x") + 1)
        other = polars.concat([frame[:20], new[20:]])
    path = tmp_path / {"itself": "t.csv", "parquet": "o.parquet"}.get(kind, "other.csv")
    if kind == "parquet":
        other.write_parquet(path)
    elif kind != "itself":
        (frame if kind == "copy" else other).write_csv(path)
    options = {"exclude": ["y"], "kind": "regression"} if target == "z" else {}
    for place in ({"test": str(path)}, {"valid_sets": {"other": str(path)}}):
        caplog.clear()
        load(tmp_path / "t.csv", target, **options, **place)
        (actual,) = (warning for warning in warnings(caplog) if "training rows too" in warning)
        number = int(actual.split(": ")[1].split()[0])
        assert actual.startswith(f"{path}: {number} of 60 rows are") and number > 10
    caplog.clear()
    frame.with_columns(polars.col("x") + 2).write_csv(tmp_path / "new.csv")
    load(tmp_path / "t.csv", target, **options, test=str(tmp_path / "new.csv"))
    assert "training rows too" not in caplog.text


def test_rows_that_repeat_by_themselves_are_not_named(tmp_path, caplog):
    for name in ("t.csv", "other.csv"):
        rows = [f"{row % 3},{row % 2}" for row in range(60 if name == "t.csv" else 30)]
        (tmp_path / name).write_text("\n".join(["x,y", *rows]) + "\n")
    load(tmp_path / "t.csv", test=str(tmp_path / "other.csv"))
    assert "training rows too" not in caplog.text


def test_frames_of_float32_have_the_categories_of_their_file(tmp_path):
    numbers = polars.Series("c", [0.1, 0.2, 0.7] * 20, dtype=polars.Float32)
    frame = polars.DataFrame([numbers, polars.Series("y", [0, 1] * 30)])
    frame.write_parquet(tmp_path / "t.parquet")
    splits = load(tmp_path / "t.parquet", categories=["c"])
    kind = recorded_kind.of(Described("t", splits.batcher, splits.facts, 64, "float32"))
    expected = kind.samples(tmp_path / "t.parquet").dataset.inputs
    assert expected.sum() == len(frame)
    pandas = pytest.importorskip("pandas")
    in_pandas = pandas.DataFrame({"c": numbers.to_numpy()})
    for table in (frame, frame.lazy(), [frame[:9], frame[9:]], in_pandas, expected.tolist()):
        assert torch.equal(kind.samples(table).dataset.inputs, expected)


@pytest.mark.parametrize("texts", [
    [">7", ">8", "Norm"], ["65+", "<65"], ["#1", "#2"],
])  # fmt: skip
def test_numbers_with_signs_of_classes_are_classes(tmp_path, texts):
    rows = [f"{texts[row % len(texts)]},{row % 2}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    assert load(tmp_path / "t.csv").facts["encoding"]["columns"][0]["kind"] == "one_hot"

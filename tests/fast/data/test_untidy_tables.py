"""Tables as people have them: gaps, columns of text and dates, other delimiters, bad lines."""

import json
import logging
import statistics
from datetime import date
from pathlib import Path

import polars
import pytest
import torch

from andiron import errors
from andiron.data.on_disk.csv_file import csv, read
from andiron.data.on_disk.table_encoding import TableEncoding
from refusals import message_of

TOWNS = ("Rome", "Bonn", "Oslo", "Nice")
ROWS = [
    [
        "" if row in (4, 9, 30) else str(40 + 3 * row % 31),
        "NA" if row == 11 else str(1 + row % 5), "" if row == 12 else TOWNS[row % 4],
        f"2024-0{1 + row % 9}-11", str(1000.5 * row + 7),
    ]
    for row in range(43)
]  # fmt: skip
HEADER = ["area", "rooms", "town", "sold", "price"]


def text_of(rows=ROWS, header=HEADER, delimiter=","):
    return "".join(delimiter.join(row) + "\n" for row in [header, *rows])


@pytest.fixture
def file(tmp_path):
    def write(content):
        (tmp_path / "table.csv").write_text(content)
        return str(tmp_path / "table.csv")

    return write


def load(path, target="price", **options):
    given = {"valid": 0.2, "split_seed": 0, "kind": "regression", **options}
    return csv(path=path, target=target, **given)


def refused(path, **options):
    return message_of(errors.DataError, load, path, **options).replace(path, "table.csv")


def rows_of(part):
    """The row of the file that each sample is."""
    return [round((price - 7) / 1000.5) for price in part.targets[:, 0].tolist()]


@pytest.mark.parametrize("missing", ["median", "mean", 2.5])
def test_gaps_are_filled_by_what_the_training_rows_have(file, missing):
    splits = load(file(text_of()), missing=missing)
    trained = rows_of(splits.train)
    for place, name in enumerate(("area", "rooms")):
        known = [float(ROWS[row][place]) for row in trained if ROWS[row][place] not in ("", "NA")]
        fill = getattr(statistics, missing)(known) if isinstance(missing, str) else missing
        encoding = splits.facts["encoding"]["columns"][place]
        assert (encoding["column"], encoding["fill"]) == (name, pytest.approx(fill))
        for part in (splits.train, splits.valid, splits.test):
            for row, value in zip(rows_of(part), part.inputs[:, place].tolist(), strict=True):
                text = ROWS[row][place]
                expected = fill if text in ("", "NA") else float(text)
                assert value == pytest.approx(expected, rel=1e-6)  # float32


def test_a_row_that_is_not_trained_on_changes_nothing_that_was_learned(file):
    before = load(file(text_of()), missing="median")
    row = rows_of(before.test)[0]
    changed = [[*value] for value in ROWS]
    changed[row][0], changed[row][2] = "9999", "Atlantis"
    after = load(file(text_of(changed)), missing="median")
    assert after.facts == before.facts and 9999.0 in after.test.inputs[:, 0]
    unknown = after.test.inputs[rows_of(after.test).index(row), 2:6]
    assert unknown.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_rows_with_gaps_are_refused_all_at_once_dropped_or_skipped(file):
    path = file(text_of())
    lines = refused(path).splitlines()
    assert lines[0] == "table.csv: 5 lines cannot be used:"
    assert [line.partition(":")[0] for line in lines[1:-1]] == [
        "  line 6, column 'area'", "  line 11, column 'area'", "  line 13, column 'rooms'",
        "  line 14, column 'town'", "  line 32, column 'area'",
    ]  # fmt: skip
    assert lines[-1] == (
        "correct or remove them, or leave out columns ('data.exclude=[\"area\", \"rooms\", "
        "\"town\"]'), or set data.missing=median or data.missing=drop, or skip them with "
        "data.max_bad_lines=5"
    )
    dropped, skipped = load(path, missing="drop"), load(path, max_bad_lines=5)
    assert dropped.facts["dropped_rows"] == 5
    assert skipped.facts["skipped_lines"] == [6, 11, 13, 14, 32]
    for part in ("train", "valid", "test"):
        first, second = getattr(dropped, part), getattr(skipped, part)
        assert torch.equal(first.inputs, second.inputs)
        assert torch.equal(first.targets, second.targets)
    kept = sorted(row for part in (dropped.train, dropped.valid, dropped.test)
                  for row in rows_of(part))  # fmt: skip
    assert kept == [row for row in range(43) if row not in (4, 9, 11, 12, 30)]
    assert len(dropped.train) + len(dropped.valid) + len(dropped.test) == 38


def test_a_missing_target_is_never_filled(file):
    rows = [[*row] for row in ROWS]
    rows[5][4] = ""
    rows[4][0] = rows[9][0] = rows[11][1] = rows[12][2] = rows[30][0] = "5"
    rows[12][2] = "Rome"
    assert refused(file(text_of(rows))) == (
        "table.csv, line 7, column 'price': has no value; correct or remove them, or set "
        "data.missing=median or data.missing=drop, or skip them with data.max_bad_lines=1"
    )
    assert load(file(text_of(rows)), max_bad_lines=1).facts["skipped_lines"] == [7]
    path = file(text_of([*rows[:4], ["", *rows[4][1:]], *rows[5:]]))
    for missing, number in (("drop", 2), ("median", 1), ("mean", 1), (0, 1)):
        splits = load(path, missing=missing)
        assert splits.facts["dropped_rows"] == number
        assert 5 not in [*rows_of(splits.train), *rows_of(splits.valid), *rows_of(splits.test)]


def test_text_becomes_an_input_for_each_category_and_dates_become_days(file, caplog):
    path = file(text_of())
    with caplog.at_level(logging.INFO, "andiron"):
        splits = load(path, missing="median")
    assert caplog.messages == [
        f"{path}: columns read as categories: town (4 texts)",
        f"{path}: columns read as dates: sold",
    ]  # fmt: skip
    assert splits.facts["columns"] == ["area", "rooms", "town", "sold"]
    assert splits.facts["encoding"]["columns"][2]["categories"] == tuple(sorted(TOWNS))
    assert splits.input_shape == (7,)
    for row, inputs in zip(rows_of(splits.train), splits.train.inputs.tolist(), strict=True):
        assert inputs[2:6] == [float(town == ROWS[row][2]) for town in sorted(TOWNS)]
        month = 1 + row % 9  # 2024-01-11 is day 19733
        assert inputs[6] == 19733 + (0, 31, 60, 91, 121, 152, 182, 213, 244)[month - 1]
    assert splits.facts["mean"][2:6] == [0.0] * 4 and splits.facts["std"][2:6] == [1.0] * 4
    assert splits.facts["std"][6] != 1.0


def test_codes_count_from_one_and_zero_is_unknown_or_missing(file):
    path = file(text_of())
    splits = load(path, missing="median", categories="codes")
    assert splits.facts["category_counts"] == [0, 0, 5, 0]
    of_two = load(path, missing="median", categories={"town": "codes", "rooms": "one_hot"})
    assert of_two.facts["category_counts"] == [0, 0, 0, 0, 0, 0, 0, 5, 0]
    assert torch.equal(of_two.train.inputs[:, 7], splits.train.inputs[:, 2])
    for part in (splits.train, splits.valid, splits.test):
        for row, inputs in zip(rows_of(part), part.inputs.tolist(), strict=True):
            town = ROWS[row][2]
            assert inputs[2] == (1 + sorted(TOWNS).index(town) if town else 0)


def test_the_record_is_enough_to_encode_other_rows_the_same(file):
    path = file(text_of())
    splits = load(path, missing="median", categories=["rooms"])
    encoding = TableEncoding.of_facts(json.loads(json.dumps(splits.facts)))
    table = read(
        Path(path), features=splits.facts["columns"], missing=encoding.missing,
        reading=encoding.reading,
    )  # fmt: skip
    inputs = encoding.encoded(table).inputs(torch.arange(len(table)))
    for part in (splits.train, splits.valid, splits.test):
        assert torch.equal(inputs[rows_of(part)], part.inputs)


def test_other_rows_are_read_as_the_kinds_that_were_learned(file):
    splits = load(file(text_of()), missing="median")
    encoding = TableEncoding.of_facts(splits.facts)
    others = [["many", "1", "7", "8", "0"], ["1", "", "", "2024-01-11", "0"]]
    with pytest.raises(errors.DataError) as raised:
        read(Path(file(text_of(others))), features=splits.facts["columns"],
             missing=encoding.missing, reading=encoding.reading)  # fmt: skip
    assert "line 2, column 'area': 'many' is not a finite number" in str(raised.value)
    table = read(Path(file(text_of(others[1:]))), features=splits.facts["columns"],
                 missing=encoding.missing, reading=encoding.reading)  # fmt: skip
    fill = encoding.columns[1].fill
    inputs = encoding.encoded(table).inputs(torch.arange(1), torch.float64)
    assert inputs.tolist() == [[1.0, fill, 0.0, 0.0, 0.0, 0.0, 19733.0]]


def test_numbers_alone_have_no_encoding_in_the_record(file):
    plain = [[row[4], row[4]] for row in ROWS]
    facts = load(file(text_of(plain, ["x", "price"]))).facts
    assert set(facts) == {
        "input_shape", "columns", "num_outputs", "target_columns", "target_mean", "target_std",
        "mean", "std",
    }  # fmt: skip
    assert TableEncoding.of_facts(facts).facts == {}


def test_numbers_can_be_categories_and_columns_left_out(file):
    path = file(text_of())
    splits = load(path, missing="median", categories=["rooms"], exclude=["town", "sold", "area"])
    (rooms,) = TableEncoding.of_facts(splits.facts).columns
    assert rooms.names == [f"rooms={text}" for text in ("1", "2", "3", "4", "5", "NA")]
    assert refused(path, exclude=["price"]) == (
        "data: column 'price' is named twice in target, features, exclude and weight; name each "
        "column once"
    )
    assert "has no column 'twon'; did you mean 'town'?" in refused(path, exclude=["twon"])


def test_a_column_with_any_number_is_of_numbers(file):
    rows = [[*row] for row in ROWS]
    rows[0][2] = "40"
    assert "\n  line 3, column 'town': 'Bonn' is not a finite number" in refused(
        file(text_of(rows)), missing="median"
    )


def test_too_many_categories_are_refused_with_what_to_do(file):
    names = [[f"name {row}", str(row % 7), str(row)] for row in range(400)]
    path = file(text_of(names, ["name", "x", "price"]))
    assert refused(path).endswith(
        "different texts in the training rows, and one_hot takes at most 200; leave it out with "
        """'data.exclude=["name"]', or embed columns of text with data.categories=codes"""
    )
    assert load(path, categories="codes").facts["category_counts"][0] > 200


def test_texts_that_few_rows_share_are_named_with_the_option_that_leaves_them_out(file, caplog):
    rows = [[f"n{row}", f"note {row % 60}", str(row % 40), str(row)] for row in range(119)]
    path = file(text_of(rows, ["id", "note", "kind", "price"]))
    load(path, exclude=["id"], categories=["kind"])
    assert """leave them out with 'data.exclude=["id", "note"]'""" in caplog.text
    caplog.clear()
    load(path, exclude=["id", "note"], categories=["kind"])
    assert "few rows share" not in caplog.text


def test_a_column_without_any_value_is_refused(file):
    path = file(text_of([["", str(row), str(row)] for row in range(40)], ["a", "x", "price"]))
    assert refused(path, missing="median") == (
        "table.csv: column 'a' has no value in the training rows; leave it out with data.exclude"
    )
    assert refused(path, missing="drop") == (
        "table.csv: all rows are dropped; leave out columns without values (data.exclude): a"
    )


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_delimiter_is_found_by_the_names_of_the_header(file, delimiter, quote):
    expected = load(file(text_of()), missing="median")
    rows = [[f"{quote}{text}{quote}" for text in row] for row in [HEADER, *ROWS]]
    path = file(text_of(rows[1:], rows[0], delimiter))
    assert torch.equal(load(path, missing="median").train.inputs, expected.train.inputs)
    result = refused(path, target="prize")
    assert "has no column 'prize'; did you mean 'price'?; its columns are: area, rooms, " in result


def test_targets_follow_the_decimal_separator(file):
    rows = [[f"{row}", f"{row},5", f"{row / 4}".replace(".", ",")] for row in range(40)]
    path = file(text_of(rows, ["x", "price", "rent"], ";"))
    result = refused(path, exclude=["rent"])
    assert "line 2, column 'price': '0,5' is not a finite number" in result
    splits = load(path, target=["price", "rent"], decimal=",")
    expected = torch.cat([splits.train.inputs + 0.5, splits.train.inputs / 4], dim=1)
    assert torch.equal(splits.train.targets, expected)
    guessed = load(path, exclude=["rent"], decimal=",", kind=None)
    assert torch.equal(guessed.train.targets, guessed.train.inputs + 0.5)
    assert "40 of 40 are classes with one row each" in refused(path, exclude=["rent"], kind=None)


def test_the_first_bad_lines_are_listed_and_every_remedy_can_be_typed(file):
    rows = [["" if row % 4 else "1", "x" if row == 4 else "2", str(row)] for row in range(20)]
    path = file(text_of(rows, ["x", "y", "price"]))
    gap = "has no value"
    assert refused(path).splitlines() == [
        "table.csv: 16 lines cannot be used:",
        f"  line 3, column 'x': {gap}", f"  line 4, column 'x': {gap}",
        f"  line 5, column 'x': {gap}", "  line 6, column 'y': 'x' is not a finite number",
        f"  line 7, column 'x': {gap}", "  and 11 more",
        "correct or remove them, or leave out columns ('data.exclude=[\"x\", \"y\"]'), or set "
        "data.missing=median or data.missing=drop, or read text ('data.categories=[\"y\"]'), or "
        "skip them with data.max_bad_lines=16",
    ]  # fmt: skip
    for options in ({"missing": "median", "categories": ["y"]},
                    {"missing": "drop", "categories": ["y"]}, {"max_bad_lines": 16}):  # fmt: skip
        load(path, valid=0.5, test=0.4, **options)


def test_dates_of_another_format_have_it_named(file):
    rows = [[f"{1 + row % 28}.02.2023", str(row)] for row in range(40)]
    path = file(text_of(rows, ["day", "price"]))
    splits = load(path, date_format="%d.%m.%Y")
    assert splits.facts["encoding"] == {
        "columns": [{"column": "day", "kind": "date", "categories": ()}],
        "missing": "refuse", "date_format": "%d.%m.%Y", "decimal": ".",
    }  # fmt: skip
    assert torch.equal(splits.test.inputs[:, 0], 19389.0 + splits.test.targets[:, 0] % 28)
    assert load(path).facts["encoding"]["columns"][0]["kind"] == "one_hot"


def test_a_wrong_date_is_a_bad_line_and_a_format_without_dates_is_refused(file):
    rows = [[f"2024-01-{1 + row % 28:02}", str(row)] for row in range(40)]
    rows[3][0] = "2024-01-32"
    path = file(text_of(rows, ["day", "price"]))
    assert refused(path).startswith(
        "table.csv, line 5, column 'day': '2024-01-32' is not a date YYYY-MM-DD; correct or remove"
    )
    assert load(path, max_bad_lines=1).facts["skipped_lines"] == [5]
    assert "no column of table.csv has such dates" in refused(path, date_format="%d.%m.%Y")


def test_bad_lines_of_every_kind_are_skipped_up_to_the_limit(file, caplog):
    rows = [[str(row), str(row % 3), str(row)] for row in range(43)]
    rows[3], rows[5], rows[7] = ["1", "2"], ["1", "x", "2"], ["1", "inf", "3"]
    rows[9] = ["1", "2", "dear"]
    path = file(text_of(rows, ["a", "b", "price"]))
    assert "or skip them with data.max_bad_lines=4" in refused(path, max_bad_lines=3)
    splits = load(path, max_bad_lines=4, missing="median")
    assert splits.facts["skipped_lines"] == [5, 7, 9, 11]
    (warned,) = (record.getMessage() for record in caplog.records if "skipped" in record.msg)
    assert "table.csv: 4 lines cannot be used:\n  line 5: has 2 values where" in warned
    assert "data.max_bad_lines=4" not in warned.splitlines()[-1]
    good = file(text_of([row for at, row in enumerate(rows) if at not in (3, 5, 7, 9)],
                        ["a", "b", "price"]))  # fmt: skip
    assert torch.equal(splits.train.inputs, load(good, missing="median").train.inputs)
    all_bad = file(text_of([["1", "x", ""], ["", "2", "3"]], ["a", "b", "price"]))
    assert "max_bad_lines" not in refused(all_bad, max_bad_lines=2)


def test_rows_of_further_files_are_skipped_and_thousands_are_of_every_column(file, tmp_path):
    rows = [f"{1 + row % 9}.{row:03},5;{row};1.000,{1 + row % 3}\n" for row in range(40)]
    head, other = "x;price;weight\n", tmp_path / "other.csv"
    other.write_text(head + "".join(rows[:9]) + "1;2\n")
    options = {"test": str(other), "weight": "weight", "decimal": ",", "thousands": "."}
    path = file(head + "".join(rows))
    assert "other.csv, line 11: has 2 values" in refused(path, **options)
    splits = load(path, **options, max_bad_lines=1)
    assert len(splits.test) == 9 and splits.facts["encoding"]["thousands"] == "."
    assert splits.train.inputs.max() > 9000 and splits.train.weights.std() < 1e-3
    encoding = TableEncoding.of_facts(json.loads(json.dumps(splits.facts)))
    new = [{"x": 123.456}, {"x": "1.234,5"}, {"x": 1234}]
    table = read(new, features=["x"], reading=encoding.reading)
    inputs = encoding.encoded(table).inputs(torch.arange(3), torch.float64)
    assert inputs.flatten().tolist() == [123.456, 1234.5, 1234]


def parquet(tmp_path, **columns):
    path = tmp_path / "table.parquet"
    polars.DataFrame(columns).write_parquet(path)
    return str(path)


def test_a_parquet_file_is_read_as_the_same_table_in_text(file, tmp_path):
    numbers = [None if row == 3 else row / 3 for row in range(43)]
    names = [("Bonn", 'a "b",\nc', None)[row % 3] for row in range(43)]
    days = [date(2024, 1, 1 + row % 28) for row in range(43)]
    prices = [1000.5 * row for row in range(43)]
    binary = parquet(tmp_path, x=numbers, town=names, day=days, price=prices)
    quoted = ["" if name is None else '"a ""b"",\nc"' if "a" in name else name for name in names]
    shown = ["" if number is None else repr(number) for number in numbers]
    text = zip(shown, quoted, map(str, days), map(repr, prices))
    expected = load(file(text_of(text, ["x", "town", "day", "price"])), missing="median")
    record = load(binary, missing="median")
    assert record.facts == expected.facts
    assert torch.equal(record.train.inputs, expected.train.inputs)
    assert torch.equal(record.test.targets, expected.test.targets)


def test_a_row_of_a_parquet_file_is_named_by_its_number(tmp_path):
    prices = [float(row) for row in range(43)]
    names = ["two\nlines"] * 42 + [""]
    path = parquet(tmp_path, town=names, price=prices)
    assert refused(path) == (
        "table.csv, row 42, column 'town': has no value; correct or remove them, or leave "
        "out columns ('data.exclude=[\"town\"]'), or set data.missing=median or data.missing=drop, "
        "or skip them with data.max_bad_lines=1"
    )
    assert refused(path, target="prize").endswith(
        "has no column 'prize'; did you mean 'price'?; its columns are: town, price"
    )


@pytest.mark.parametrize("length", [0, 4, 300])
def test_a_damaged_parquet_file_is_refused(tmp_path, length):
    path = Path(parquet(tmp_path, price=[1.0, 2.0]))
    path.write_bytes(path.read_bytes()[:length])
    assert refused(str(path)).startswith("table.csv: cannot be read (")


@pytest.mark.parametrize("value", ["5", "0.1", "1e-7", "123456789012345678901", "-.5", "6.", "+3"])
def test_quotes_change_no_number_and_no_line(file, value):
    rows = [[value if row == 7 else str(row), str(row)] for row in range(43)]
    plain = load(file(text_of(rows, ["x", "price"])))
    rows[7][0] = f'"{value}"'
    assert torch.equal(load(file(text_of(rows, ["x", "price"]))).train.inputs, plain.train.inputs)
    assert torch.tensor(float(value)) in torch.cat(
        [part.inputs for part in (plain.train, plain.valid, plain.test)]
    )
    rows[7][0], rows[20] = f'"{value}\n"', ["many", "20"]
    assert "table.csv, line 23, column 'x': 'many'" in refused(file(text_of(rows, ["x", "price"])))


@pytest.mark.parametrize("lines", [["1,2,3,4", "1,2"], ["1,2", "1,2,3,4"]])
def test_the_first_row_can_be_too_long_or_too_short(file, lines):
    rows = [[str(row)] * 3 for row in range(43)]
    result = refused(file("\n".join(["a,b,price", *lines, text_of(rows, ["1", "2", "3"])])))
    for line, text in enumerate(lines, start=2):
        assert f"line {line}: has {1 + text.count(',')} values where the header has 3" in result


def test_a_quote_within_a_value_ends_no_line(file):
    rows = [[f'{row % 3}" pipe', str(row)] for row in range(43)]
    encoding = load(file(text_of(rows, ["pipe", "price"]))).facts["encoding"]
    assert encoding["columns"][0]["categories"] == ('0" pipe', '1" pipe', '2" pipe')


def test_texts_that_stand_for_missing_values_in_few_rows_are_named_by_their_option(file):
    marks = {3: "#DIV/0!", 5: "#DIV/0!", 8: "-", 13: "-", 16: "sum"}
    rows = [[marks.get(row, str(row)), str(row)] for row in range(20)]
    path = file(text_of(rows, ["x", "price"]))
    said = "or take such texts as missing ('data.missing_values=[\"?\", \"#DIV/0!\", \"-\"]')"
    assert said in refused(path, missing="median", missing_values=["?"])
    load(path, missing="median", missing_values=["?", "#DIV/0!", "-"], max_bad_lines=1)


def test_a_value_more_than_names_names_the_row_unless_it_repeats(file, caplog):
    named = [[f"r{place}", *row] for place, row in enumerate(ROWS)]
    encoding = load(file(text_of(named)), missing="median").facts["encoding"]
    assert encoding["columns"][0]["column"] == "area"
    assert "the first, such as 'r0', is taken for the name of the row" in caplog.text

    cut = [[str(row % 5), str(row), "7"] for row in range(43)]  # of 0,12 in a table of commas
    with pytest.raises(errors.DataError, match="has 3 values where the header has 2 names"):
        load(file(text_of(cut, ["area", "price"])))

"""Tables in text files: what is read, what is fitted on which rows, and every problem by its place.
"""

import hashlib
import json
import logging
from pathlib import Path

import polars
import pytest
import torch

from andiron import errors
from andiron.data.dataset import sample_name
from andiron.data.kinds import recorded_kind
from andiron.data.on_disk import table_checks
from andiron.data.on_disk.csv_file import csv, read
from andiron.data.splitting import described
from andiron.plain import memory
from refusals import message_of

HOUSES = "area,rooms,price\n" + "".join(
    f"{40 + 3 * row},{1 + row % 5},{1000.5 * row + 7}\n" for row in range(43)
)
FLOWERS = "kind,length,width\n" + "".join(
    f"{('rose', 'aster', 'lily')[row % 3]},{row / 8},{row % 7}\n" for row in range(43)
)


@pytest.fixture
def file(tmp_path):
    """Writes a table and gives its path."""

    def write(content):
        path = tmp_path / "table.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def load(path, target="price", **options):
    return csv(**{"path": path, "target": target, "valid": 0.2, "split_seed": 0, **options})


def refused(path, target="price", **options):
    return message_of(errors.DataError, load, path, target, **options).replace(path, "table.csv")


def refused_to_predict(path):
    with pytest.raises(errors.DataError) as raised:
        read(Path(path), features=["area"])
    return str(raised.value).replace(path, "table.csv")


def rows(*parts):
    return sorted(
        (*inputs.tolist(), *targets.tolist())
        for part in parts
        for inputs, targets in zip(part.inputs, part.targets)
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (HOUSES.replace("3,2008.0\n", "3\0,2008.0\n"), 4),
        (HOUSES + "\0" * 40, 45),  # as a machine that lost power leaves it
        (HOUSES.encode("utf-16-le"), 1),
    ],
)
def test_nul_bytes_are_refused_by_line(file, content, line):
    table = file(content)
    for said in (refused(table), refused_to_predict(table)):
        assert said == (
            f"table.csv, line {line}: is not UTF-8 (byte 0x00); set data.encoding, such as cp1252, "
            "cp1250, cp1251 or utf-16, or write it anew: iconv -t utf-8 -f cp1252 table.csv > "
            "new.csv; zeros are of a file that was not written whole"
        )


def test_the_parts_make_up_the_file_and_a_seed_chooses_validation_rows(file):
    one, other = load(file(HOUSES)), load(file(HOUSES), split_seed=1)
    expected = [(40.0 + 3 * row, 1.0 + row % 5, 1000.5 * row + 7) for row in range(43)]
    for splits in (one, other):
        assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [31, 8, 4]
        assert rows(splits.train, splits.valid, splits.test) == expected
    assert rows(one.test) == rows(other.test) and rows(one.valid) != rows(other.valid)


def test_mean_and_deviation_are_over_the_training_rows(file):
    splits = load(file(HOUSES))
    inputs, targets = splits.train.inputs.double(), splits.train.targets.double()
    for name, values in (("mean", inputs.mean(0)), ("std", inputs.std(0, correction=0))):
        # sums of 31 float64 in another order
        assert splits.facts[name] == pytest.approx(values.tolist(), rel=1e-12)
    assert splits.facts["target_mean"] == pytest.approx(targets.mean(0).tolist(), rel=1e-12)
    assert splits.facts["target_std"] == pytest.approx(
        targets.std(0, correction=0).tolist(), rel=1e-12
    )


def test_features_are_taken_in_the_order_they_are_named(file):
    path = file(HOUSES)
    splits = load(path, features=["rooms", "area"])
    assert splits.facts["columns"] == ["rooms", "area"]
    assert torch.equal(splits.train.inputs, load(path).train.inputs.flip(1))
    assert load(path, features=["rooms"]).input_shape == (1,)


def test_several_targets_are_as_many_outputs(file):
    splits = load(file(HOUSES), ["price", "rooms"])
    assert (splits.offered["num_outputs"], splits.facts["target_columns"]) == (
        2, ["price", "rooms"],
    )  # fmt: skip
    assert splits.facts["columns"] == ["area"]
    assert torch.equal(splits.train.targets[:, 1], 1 + (splits.train.inputs[:, 0] - 40) / 3 % 5)


@pytest.mark.parametrize("kind", [None, "regression"])
def test_columns_of_true_and_false_are_several_labels(kind, file):
    rows = [f"{row},{row % 2 == 0},{row % 3 == 0}" for row in range(40)]
    tables = [f"a,cat,dog\n{chr(10).join(rows)}\n"]
    tables.append(tables[0].replace("True", "1").replace("False", "0"))

    first, second = (load(file(table), ["cat", "dog"], kind=kind) for table in tables)

    assert torch.equal(first.train.targets, second.train.targets)
    odd = file(tables[0].replace("True", "yes").replace("False", "no"))
    assert "line 2, column 'cat': 'yes' is not a finite number" in refused(odd, ["cat", "dog"])


def test_class_names_are_sorted_and_every_part_has_each_class(file):
    splits = load(file(FLOWERS), "kind")
    assert splits.facts["class_names"] == ["aster", "lily", "rose"]
    assert (splits.num_classes, splits.facts["columns"]) == (3, ["length", "width"])
    # rows 0, 3, ... are roses: row = 8 * length
    for part in (splits.train, splits.valid, splits.test):
        expected = [(2, 0, 1)[int(8 * length) % 3] for length in part.inputs[:, 0].tolist()]
        assert part.targets.tolist() == expected
    counts = [
        torch.bincount(part.targets).tolist() for part in (splits.train, splits.valid, splits.test)
    ]
    assert counts == [[10, 10, 11], [3, 3, 2], [1, 1, 2]]  # 7.8 of the other 39 validate


@pytest.mark.parametrize(
    "labels, kind, class_names",
    [
        (["a", "b"], "classification", ["a", "b"]),
        (["0", "1"], "classification", ["0", "1"]),
        ([str(number) for number in range(11)], "classification",
         [str(number) for number in range(11)]),  # 10 after 9
        (["1", "2"], "regression", None),
        (["0", "2"], "regression", None),
        (["0.0", "1.0"], "regression", None),
        ([str(number) for number in range(44)], "regression", None),  # each once
        (["1", "x"], "classification", ["1", "x"]),
    ],
)  # fmt: skip
def test_without_kind_the_targets_tell(file, caplog, labels, kind, class_names):
    number_of_rows = 8 * len(labels) if len(labels) < 44 else 44
    content = "x,y\n" + "".join(
        f"{row / 2},{labels[row % len(labels)]}\n" for row in range(number_of_rows)
    )
    path = file(content)
    with caplog.at_level(logging.INFO):
        splits = load(path, "y")
    assert splits.facts.get("class_names") == class_names
    has = "classes" if kind == "classification" else "numbers to predict"
    assert caplog.messages == [f"{path}: target y read as {has} (data.kind changes it)"]


def test_kind_decides_against_what_the_targets_look_like(file, caplog):
    content = "x,y\n" + "".join(f"{row / 2},{row % 3 * 5}\n" for row in range(44))
    assert load(file(content), "y", kind="classification").facts["class_names"] == ["0", "5", "10"]
    content = "x,y\n" + "".join(f"{row / 2},{row % 2}\n" for row in range(44))
    assert load(file(content), "y", kind="regression").facts["num_outputs"] == 1
    assert caplog.messages == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(",", " , "),
        lambda text: text.replace("\n", "\n\n") + "\n",
        lambda text: text.replace("area", '"area"').replace("\n40,", '\n"40",'),
        lambda text: text.rstrip("\n"),
    ],
    ids=["byte order mark", "windows", "blanks", "blank lines", "quotes", "no last line end"],
)  # fmt: skip
def test_how_a_table_is_written_changes_no_number(file, change):
    expected = load(file(HOUSES))
    assert change(HOUSES) != HOUSES
    changed = load(file(change(HOUSES)))
    assert torch.equal(changed.train.inputs, expected.train.inputs)
    assert torch.equal(changed.test.targets, expected.test.targets)
    assert changed.facts == expected.facts


def test_the_fingerprint_is_that_of_the_content_and_the_facts_are_plain(file):
    splits = load(file(HOUSES), valid="test")
    assert splits.fingerprint == hashlib.sha256(HOUSES.encode()).hexdigest()
    assert splits.name == "table.csv"
    assert splits.validates_on_test
    assert json.loads(json.dumps(splits.facts))["columns"] == ["area", "rooms"]


LEAVE_OUT = "correct or remove them, or leave out columns ('data.exclude=[\"rooms\"]')"
FILL = "set data.missing=median or data.missing=drop"
SKIP = "or skip them with data.max_bad_lines=1"


def with_line(number, line, table=HOUSES):
    """The table with one line, counted from 1, replaced."""
    lines = table.splitlines()
    return "\n".join([*lines[: number - 1], line, *lines[number:]]) + "\n"


@pytest.mark.parametrize(
    "content, said",
    [
        *((with_line(5, f"49,{odd},3008.5"),
           f"table.csv, line 5, column 'rooms': {odd!r} is not a finite number; {LEAVE_OUT}, or "
           f"read text ('data.categories=[\"rooms\"]'), {SKIP}")
          for odd in ("many", "31/05/2024", "\u0664", "-inf", "1e999", "1_000")),
        (with_line(5, "49,4,3008,5").replace("3008,5", '"3008,5"'),
         "table.csv, line 5, column 'price': '3008,5' is not a finite number; correct or remove "
         f"them, or {table_checks.COMMA}, or skip them with data.max_bad_lines=1"),
        *((with_line(5, f"49,{gap},3008.5"),
           f"table.csv, line 5, column 'rooms': has no value{shown}; {LEAVE_OUT}, or {FILL}, "
           f"{SKIP}")
          for gap, shown in (("", ""), (" ", ""), ("nan", " ('nan')"))),
        (with_line(5, "49,4,"),
         "table.csv, line 5, column 'price': has no value; correct or remove them, or "
         f"{FILL}, {SKIP}"),
        (with_line(7, "4,NaN,3\n5,6"),
         "table.csv: 2 lines cannot be used:\n  line 7, column 'rooms': has no value ('NaN')\n"
         f"  line 8: has 2 values where the header has 3 names\n{LEAVE_OUT}, or {FILL}, "
         "or skip them with data.max_bad_lines=2"),
        (with_line(8, "4,5"),
         "table.csv, line 8: has 2 values where the header has 3 names; correct or remove them, "
         f"{SKIP}"),
        (with_line(8, "4,5,6,7"),
         "table.csv, line 8: has 4 values where the header has 3 names; correct or remove them, "
         f"{SKIP}"),
        (with_line(8, "\n\n4,5"),
         "table.csv, line 10: has 2 values where the header has 3 names; correct or remove them, "
         f"{SKIP}"),
        ("", "table.csv: is empty; its first line should have the names of the columns"),
        ("\n\n", "table.csv: is empty; its first line should have the names of the columns"),
        ("area,rooms,price\n", "table.csv: has a header and no rows"),
        ("area,rooms,area,price\n1,2,3,4\n",
         "table.csv, line 1: the header has the name 'area' twice; give each column a name of "
         "its own: cat table.csv | tail -n +2 > table2.csv, which is read with "
         """'data.header=["area.1", "rooms", "area.3", "price"]'"""),
        ("price\n1\n2\n", "table.csv: has no column beside price; there is nothing to learn from"),
        ("area,prize\n1,2\n",
         "table.csv: has no column 'price'; did you mean 'prize'?; its columns are: area, prize"),
        ("area,cost\n1,2\n", "table.csv: has no column 'price'; its columns are: area, cost"),
        (with_line(4, '4,"5,6'),
         "table.csv, after line 3: cannot be read (unexpected end of data); correct it"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_numbers_is_reported_by_its_place(file, content, said):
    assert refused(file(content), kind="regression") == said


def test_classes_of_single_rows_are_named_at_once_and_train(file, caplog):
    rare = "".join(f"{name},1,2\n" for name in ("tulip", "fern"))
    splits = load(file(FLOWERS + rare), "kind")
    assert splits.class_counts == [10, 1, 10, 10, 1]
    assert "column 'kind': has classes with one row each: 'fern', 'tulip'; other " in caplog.text
    few = "".join(f"{name},{row},2\n" for row, name in enumerate(("tulip", "fern", "moss")))
    assert refused(file(FLOWERS + few), "kind") == (
        "table.csv, column 'kind': 3 of 6 are classes with one row each: 'fern', 'moss', "
        "'tulip'; add rows of them, or predict numbers with data=csv_regression"
    )


def test_one_class_alone_is_refused(file):
    assert refused(file("x,y\n1,a\n2,a\n3,a\n"), "y") == (
        "table.csv, column 'y': every row is 'a'; there is nothing to classify"
    )


@pytest.mark.parametrize("options, said", [
    ({"target": []}, "data.target=[]: should name one column, or in a regression several"),
    ({"target": ["price", "area"], "kind": "classification"},
     "data.target=['price', 'area']: should name one column, or in a regression several"),
    *((options, "data: column 'price' is named twice in target, features, exclude and weight; name "
       "each column once")
      for options in ({"target": ["price", "price"]}, {"features": ["area", "price"]},
                      {"features": ["price", "price"], "target": "area"}, {"weight": "price"})),
    ({"features": ["room"]},
     "table.csv: has no column 'room'; did you mean 'rooms'?; its columns are: area, rooms, price"),
    ({"test": 0.001},
     "data.test=0.001: divides 43 samples into 43 and 0; choose a fraction that leaves samples "
     "on both sides"),
    ({"valid": 0.001},
     "data.valid=0.001: divides 39 samples into 39 and 0; choose a fraction that leaves samples "
     "on both sides"),
])  # fmt: skip
def test_a_choice_of_columns_or_fractions_that_cannot_be_met_is_refused(file, options, said):
    assert refused(file(HOUSES), **options) == said


def test_a_missing_file_is_refused_by_its_option(tmp_path):
    assert refused(str(tmp_path / "none.csv")) == (
        "table.csv: cannot be read (No such file or directory); name a file with data.path"
    )


def test_a_table_of_numbers_alone_may_have_gaps(file):
    path = Path(file("a,b\n1,2\n,3\n"))
    columns = read(path, features=None, missing="median")
    assert [*zip(*columns.frame.values())] == [(1.0, 2.0), (None, 3.0)]
    path = Path(file("a,b\n1,2\nx,3\n"))
    with pytest.raises(errors.DataError, match="line 3, column 'a': 'x' is not a finite number"):
        read(path, features=None)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_larger_than_memory_is_refused_before_it_is_read(tmp_path, name, monkeypatch):
    frame = polars.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0.5, 1.5, 2.5], "text": ["a", "b", "c"]})
    path = tmp_path / name
    frame.write_csv(path) if name == "t.csv" else frame.write_parquet(path)
    monkeypatch.setattr(memory, "of_machine", lambda: 3 * 12 * 2)
    read(path, features=["x"], targets=["y"])  # the columns that are used fit
    with pytest.raises(errors.DataError, match=r"at least 108.0 bytes .* has 72.0 bytes; set"):
        read(path, features=["x", "text"], targets=["y"])


def test_samples_are_named_by_their_lines(tmp_path):
    rows = [f"{number},{number % 3 or ''},{number}" for number in range(40)]
    rows[5:5] = ["", "x,1,5"]  # a blank line and a bad one, which are left out
    path, test = tmp_path / "train.csv", tmp_path / "test.csv"
    path.write_text("\n".join(["a,b,y", *rows]))
    test.write_text("a,b,y\n7,,7\n8,1,8\n")
    wanted = {row.rpartition(",")[2]: f"line {line}" for line, row in enumerate(rows, 2)
              if row[:1] not in ("x", "")}  # fmt: skip
    options = {"target": "y", "kind": "regression", "missing": "drop", "max_bad_lines": 1}
    splits = csv(path=str(path), valid=0.2, split_seed=0, test=str(test), **options)
    for part in (splits.train, splits.valid.to(torch.device("cpu"))):
        names = [sample_name(part, index) for index in range(len(part))]
        assert names == [wanted[str(int(y))] for y in part.targets.flatten()]
    assert [sample_name(splits.test, index) for index in range(len(splits.test))] == ["line 3"]


@pytest.mark.parametrize("below, named", [
    (",,,780", "42"), ("sum,,,780", "42"), ("least,,,0\nmean,,,19\nsum,,,780", "42, 43, 44"),
    ("least,,,0\nmean,,,19\na,4,1,4", "42, 43"),
])  # fmt: skip
def test_sums_below_the_rows_are_named(tmp_path, caplog, below, named):
    path, options = tmp_path / "sums.csv", {"kind": "regression", "valid": 0.2, "split_seed": 0}
    rows = [f"{'ab'[number % 2] if number % 5 else ''},{number},1,{number}" for number in range(40)]
    path.write_text("\n".join(["a,b,c,y", *rows, below]))
    sums = [f"sums.csv, line {named}: no number or date among the features of a sample"]
    for missing, said in (("median", sums), ("drop", [])):
        caplog.clear()
        splits = csv(path=str(path), target="y", missing=missing, **options)
        recorded_kind.of(described.of_splits(splits)).samples(path)  # the rows of `predict`
        lines = [line for line in caplog.messages if "no number" in line]
        assert [line.rpartition("/")[2].partition("; if")[0] for line in lines] == said * 2
    caplog.clear()
    path.write_text(path.read_text().replace("7,1,7", "7,n.a.,7"))
    with pytest.raises(errors.DataError, match="line 9, column 'c': 'n.a.' is not a finite"):
        csv(path=str(path), target="y", missing="median", **options)
    assert sums[0] in caplog.text  # with the bad lines, not after them


def test_a_remedy_writes_no_file_that_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notes = "Report\nof May\n\na,b,y\n" + "1,2,3\n" * 8
    for name in ("may.csv", "table.csv"):
        Path(name).write_text(notes)
    options = {"target": "y", "valid": 0.2, "split_seed": 0}
    message = message_of(errors.DataError, lambda: csv(path="may.csv", **options))
    assert message.endswith("cat may.csv | tail -n +4 > table2.csv")

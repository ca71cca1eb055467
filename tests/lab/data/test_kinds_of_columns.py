"""Columns as other libraries write them: read by place, or refused by their name and type."""

import datetime
import decimal
import io
import re

import pytest
import torch

from andiron import errors

pa = pytest.importorskip("pyarrow")
from pyarrow import feather  # noqa: E402

from andiron_lab.data import arrow_files, arrow_folder  # noqa: E402

DAY, TIME = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)


def of_pyarrow(folder):
    table = pa.table({
        "half": pa.array([1.0, 2.0], pa.float16()), "uint32": pa.array([1, 2], pa.uint32()),
        "large_string": pa.array(["a", "b"], pa.large_string()),
        "view": pa.array(["a", "b"], pa.string_view()),
        "fixed_binary": pa.array([b"ab", b"cd"], pa.binary(2)),
        "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int8())),
        "run_ends": pa.RunEndEncodedArray.from_arrays([2], [7]),
        "union": pa.UnionArray.from_dense(
            pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])]),
        "list_view": pa.array([[1], [2]], pa.list_view(pa.int8())),
        "null": pa.nulls(2), "null in a list": pa.array([[1, None], [2, 3]]),
    })  # fmt: skip
    feather.write_feather(table, folder / "rows.feather", compression="uncompressed")
    refused = {
        "view": "string_view", "fixed_binary": "fixed_size_binary[2]", "map": "map<",
        "run_ends": "run_end_encoded", "union": "dense_union", "list_view": "list_view",
        "null": "type null", "null in a list": "1 missing values",
    }  # fmt: skip
    return folder / "rows.feather", table.column_names, refused


def of_polars(folder):
    import polars as pl

    frame = pl.DataFrame({
        "int": [1, 2], "bool": [True, False], "uint64": pl.Series([1, 2], dtype=pl.UInt64),
        "string": ["a", "b"], "binary": [b"a", b"b"], "date": [DAY] * 2, "datetime": [TIME] * 2,
        "decimal": [decimal.Decimal("1.5")] * 2,
        "categorical": pl.Series(["a", "b"], dtype=pl.Categorical),
        "enum": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])), "list": [[1, 2], [3]],
        "array": pl.Series([[[1], [2]]] * 2, dtype=pl.Array(pl.Float32, (2, 1))),
        "struct": [{"a": 1}, {"a": 2}], "missing": [1, None],
    })  # fmt: skip
    frame.write_ipc(folder / "rows.arrow")
    refused = {
        "uint64": "uint64", "string": "string_view", "binary": "binary_view", "date": "date32",
        "datetime": "timestamp", "decimal": "decimal128", "struct": "struct<",
        "missing": "1 missing values",
    }  # fmt: skip
    return folder / "rows.arrow", frame.columns, refused


def of_pandas(folder):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({
        "int": [1, 2], "Int64": pandas.array([1, 2], dtype="Int64"), "nan": [1.0, None],
        "boolean": pandas.array([True, None], dtype="boolean"), "string": ["a", "b"],
        "category": pandas.Categorical(["a", "b"]), "object": [b"a", b"b"],
        "datetime": pandas.to_datetime(["2020-01-01"] * 2), "list": [[1, 2], [3, 4]],
        "period": pandas.period_range("2020-01", periods=2, freq="M"),
        "timedelta": pandas.to_timedelta([1, 2]),
    })  # fmt: skip
    frame.to_feather(folder / "rows.feather", compression="uncompressed")
    refused = {
        "nan": "1 missing values", "boolean": "1 missing values", "datetime": "timestamp",
        "period": "pandas.period", "timedelta": "duration",
    }  # fmt: skip
    return folder / "rows.feather", [*frame.columns], refused


def of_duckdb(folder):
    duckdb = pytest.importorskip("duckdb")
    row = (
        "select {}::tinyint as tinyint, 2::hugeint as hugeint, 1.5::float as float, true as bool, "
        "1.5::decimal(4,1) as decimal, 'a' as varchar, 'a'::blob as blob, uuid() as uuid, "
        "interval 1 day as interval, 'a'::enum('a','b') as enum, [1,2] as list, "
        "array_value(1,2) as array, {{'a':1}} as struct, map{{'a':1}} as map, null as nothing"
    )
    table = duckdb.connect().sql(f"{row.format(1)} union all {row.format(2)}").to_arrow_table()
    feather.write_feather(table, folder / "rows.arrow", compression="uncompressed")
    refused = {
        "hugeint": "decimal128(38, 0)", "decimal": "decimal128(4, 1)", "interval": "interval",
        "struct": "struct<", "map": "map<", "nothing": "type null",
    }  # fmt: skip
    return folder / "rows.arrow", table.column_names, refused


def of_datasets(folder):
    datasets = pytest.importorskip("datasets")
    from PIL import Image

    kinds = datasets.Features({
        "label": datasets.ClassLabel(names=["a", "b"]), "text": datasets.Value("string"),
        "list": datasets.List(datasets.Value("float32")),
        "fixed": datasets.List(datasets.List(datasets.Value("int8"), length=2), length=1),
        "large": datasets.LargeList(datasets.Value("int64")), "image": datasets.Image(),
        "matrix": datasets.Array2D((1, 1), "float32"), "nested": {"a": datasets.Value("int32")},
        "time": datasets.Value("timestamp[s]"),
    })  # fmt: skip
    content = io.BytesIO()
    Image.new("RGB", (3, 3)).save(content, "PNG")
    row = {
        "label": 0, "text": "a", "list": [1.0], "fixed": [[1, 2]], "large": [1],
        "image": {"bytes": content.getvalue(), "path": None}, "matrix": [[1.0]],
        "nested": {"a": 1}, "time": TIME,
    }  # fmt: skip
    datasets.Dataset.from_list([row, row], features=kinds).save_to_disk(folder / "rows")
    (path,) = arrow_folder.files_in(folder / "rows")
    refused = {"matrix": "Array2DExtensionType", "nested": "struct<", "time": "timestamp[s]"}
    return path, [*kinds], refused


@pytest.mark.parametrize("writer", [of_pyarrow, of_polars, of_pandas, of_duckdb, of_datasets])
def test_columns_are_read_or_refused_by_their_name_and_type(tmp_path, writer):
    path, names, refused = writer(tmp_path)
    outcomes = {}
    for name in names:
        try:
            values = arrow_files.opened([path], [name]).read([name], torch.tensor([1, 0, 1]))[name]
            assert len(values) == 3
        except errors.DataError as error:
            outcomes[name] = re.search(f"{path.name}: column {name!r} (.*)", str(error))[1]
    assert outcomes.keys() == refused.keys()
    assert all(words in outcomes[name] for name, words in refused.items()), outcomes


def test_categories_are_classes_if_all_record_batches_number_them_alike(tmp_path):
    from andiron_lab.data.arrow import arrow

    values = pa.array(["wet", "dry"] * 50).dictionary_encode()
    table = pa.table({"x": [*range(100)], "label": values})
    feather.write_feather(table, tmp_path / "one.arrow", compression="uncompressed", chunksize=30)
    data = arrow(path=str(tmp_path / "one.arrow"), inputs="x", targets="label")
    assert data.facts["class_names"] == ["wet", "dry"] and sum(data.class_counts) == 81
    first = pa.record_batch({"label": values})
    other = pa.record_batch({"label": pa.array(["dry", "wet"]).dictionary_encode()})
    with pa.ipc.new_stream(str(tmp_path / "two.arrow"), first.schema) as writer:
        writer.write_batch(first)
        writer.write_batch(other)
    with pytest.raises(errors.DataError, match="'label' has other categories in other record"):
        arrow_files.opened([tmp_path / "two.arrow"], ["label"])
